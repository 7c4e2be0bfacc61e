"""Challenge pages written from the marks that networks document or always send, and pages that only look like them."""

from crawld.read.headers import plain_headers

Headers = dict[str, str]

CLOUDFLARE = """<!DOCTYPE html><html lang="en-US"><head><title>Just a moment...</title>
<meta http-equiv="refresh" content="360"><meta name="robots" content="noindex,nofollow"></head>
<body><div class="main-wrapper" role="main"><div class="main-content"><noscript><span id="challenge-error-text">
Enable JavaScript and cookies to continue</span></noscript></div></div>
<script>(function(){window._cf_chl_opt={cvId:'3',cType:'managed',cRay:'8f0'};var a=document.createElement('script');
a.src='/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1?ray=8f0';}());</script></body></html>"""
AKAMAI = """<html><head><meta http-equiv="refresh" content="5; URL='/page?bm-verify=AAQAAAAK'" /></head><body>
<div id="sec-if-cpt-container" role="main"><p>Powered and protected by Akamai</p></div>
<script>var i=17;function triggerInterstitialChallenge(){var xhr=new XMLHttpRequest();
xhr.open("POST","/_sec/verify?provider=interstitial",false);}</script></body></html>"""
AWS = """<!DOCTYPE html><html lang="en"><head><title></title><script>window.awsWafCookieDomainList = [];
window.gokuProps = {"key":"AQIDAHjc","iv":"CgAG","context":"x"};</script>
<script src="https://a1b2.c3d4.eu-west-1.token.awswaf.com/a1b2/challenge.js"></script></head>
<body><div id="challenge-container"></div><noscript><h1>JavaScript is disabled</h1>
In order to continue, we need to verify that you're not a robot.</noscript></body></html>"""
DATADOME = """<html lang="en"><head><title>example.org</title></head><body style="margin:0">
<p id="cmsg">Please enable JS and disable any ad blocker</p>
<script>var dd={'rt':'c','cid':'AHrlqAAAA','hsh':'13C44B','t':'bv','host':'geo.captcha-delivery.com'}
</script><script data-cfasync="false" src="https://ct.captcha-delivery.com/c.js"></script></body></html>"""
IMPERVA = """<html style="height:100%"><head><META NAME="ROBOTS" CONTENT="NOINDEX, NOFOLLOW"></head>
<body style="margin:0px;height:100%"><iframe id="main-iframe" src="/_Incapsula_Resource?SWUDNSAI=31&xinfo=5-1&edet=12"
frameborder=0 width="100%">Request unsuccessful. Incapsula incident ID: 505000-1234</iframe></body></html>"""
HUMAN = """<!DOCTYPE html><html lang="en"><head><title>Access to this page has been denied</title></head><body>
<section><h1>Please verify you are a human</h1><div id="px-captcha"></div><p>Access to this page has been denied because
we believe you are using automation tools to browse the website.</p></section>
<script>window._pxAppId='PXabc';</script><script src="https://captcha.px-cdn.net/PXabc/captcha.js"></script></body></html>"""

DENIED = """<HTML><HEAD><TITLE>Access Denied</TITLE></HEAD><BODY><H1>Access Denied</H1>
You don't have permission to access "http&#58;&#47;&#47;example&#46;org&#47;" on this server.<P>
Reference&#32;&#35;18&#46;2d5c1502&#46;1700000000&#46;1a2b3c<P>https&#58;&#47;&#47;errors&#46;edgesuite&#46;net&#47;18</BODY></HTML>"""
BLOCKED = """<!DOCTYPE html><html><head><title>Attention Required! | Cloudflare</title></head><body>
<div id="cf-wrapper"><h1 data-translate="block_headline">Sorry, you have been blocked</h1>
<h2>You are unable to access example.org</h2>
<p>Cloudflare Ray ID: 8f0</p></div></body></html>"""
UNAVAILABLE = """<HTML><HEAD><TITLE>Service Unavailable</TITLE></HEAD><BODY><H1>Service Unavailable</H1>
The server is temporarily unable to service your request. Please try again later.<P>
Reference&#32;&#35;15&#46;2d5c1502&#46;1700000000&#46;1a2b3c<P>https&#58;&#47;&#47;errors.edgesuite.net</BODY></HTML>"""

WALLS: dict[str, tuple[str, Headers]] = {
    "Cloudflare": (CLOUDFLARE, {"Server": "cloudflare", "CF-RAY": "8f0-FRA"}),
    "Akamai": (AKAMAI, {"Server": "AkamaiGHost"}),
    "AWS WAF": (AWS, {"Server": "CloudFront"}),
    "DataDome": (DATADOME, {"X-DataDome": "protected"}),
    "Imperva": (IMPERVA, {"X-Iinfo": "5-1-0", "X-CDN": "Imperva"}),
    "HUMAN": (HUMAN, {}),
}
"""By network its challenge page, and headers that come with it."""
BY_HEADER: dict[str, Headers] = {
    "Cloudflare": {"CF-Mitigated": "challenge"},
    "AWS WAF": {"x-amzn-waf-action": "captcha"},
    "Vercel": {"X-Vercel-Mitigated": "challenge"},
}
"""Headers that say it by themselves."""

WORDS = "A site may ask a visitor for proof that a person sits behind the browser before it shows anything. "
ARTICLE = f"""<html><head><title>How bot walls work: Just a moment...</title>
<script src="/cdn-cgi/challenge-platform/scripts/jsd/main.js"></script>
<script src="https://js.datadome.co/tags.js"></script><script src="/_Incapsula_Resource?SWJIYLWA=719d"></script>
<script>window._pxAppId='PXabc';</script></head><body><article><h1>Just a moment...</h1>
<p>The page sets window._cf_chl_opt and loads captcha-delivery.com, gokuProps or px-captcha. {WORDS * 14}</p>
<pre>&lt;script&gt;window._cf_chl_opt={{}};&lt;/script&gt; id="px-captcha" Incapsula incident ID</pre>
</article></body></html>"""
GLOSSARY = """<html><head><title>Glossary: px-captcha</title></head><body><h1>px-captcha</h1>
<p>The element id="px-captcha" holds a puzzle; see also _cf_chl_opt, window.gokuProps and Incapsula incident ID.</p>
</body></html>""".replace("<title>Glossary: px-captcha</title>", "<title>Glossary</title>")
EMBEDDED = f"""<html><head><title>Try our captcha</title></head><body><h1>A demonstration</h1><p>{WORDS * 12}</p>
<div id="px-captcha"></div><script>window._cf_chl_opt={{}}</script></body></html>"""
NO_WALLS = {"article": ARTICLE, "glossary": GLOSSARY, "embedded": EMBEDDED}
"""Pages that have marks of walls and are none."""


def plain(headers: Headers) -> dict[str, str]:
    """Headers as the fetcher hands them on."""
    return plain_headers(headers.items())
