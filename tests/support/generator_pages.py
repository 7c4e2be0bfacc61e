"""Small pages built like those of well-known generators: {content} is what a reader came for, {frame} is around it."""

ARTICLE = "A paragraph about crawling that a reader came for, long enough to be the content of the page."

PAGES = {
    "sphinx alabaster": """<title>{content} &#8212; Project 1.0 documentation</title>
        <div class=related role=navigation aria-label=Related><h3>Navigation</h3><ul><li>{frame}</ul></div>
        <div class=document><div class=documentwrapper><div class=bodywrapper><div class=body role=main>
        <section id=a><h1>{content}<a class=headerlink>¶</a></h1><p>{article}</p><p>{content}</p>
        <div class="highlight-python notranslate"><div class=highlight><pre><span></span>{content}</pre></div></div>
        <dl class="py function"><dt>{content}</dt><dd><p>{content}</p></dd></dl>
        <aside class="footnote-list brackets"><aside class="footnote brackets" role=doc-footnote>{content}</aside>
        </aside>
        </section></div></div></div>
        <div class=sphinxsidebar role=navigation aria-label=Main><div class=sphinxsidebarwrapper>
        <h1 class=logo><a>{frame}</a></h1><ul><li><a>{frame}</a></ul></div></div><div class=clearer></div></div>
        <div class=footer>&#169;{frame}</div>""",
    "sphinx read the docs": """<title>{content} - Project</title><div class=wy-grid-for-nav>
        <nav data-toggle=wy-nav-shift class=wy-nav-side><ul><li>{frame}</ul></nav>
        <section data-toggle=wy-nav-shift class=wy-nav-content-wrap><nav class=wy-nav-top>{frame}</nav>
        <div class=wy-nav-content><div class=rst-content><div role=navigation aria-label="Page navigation">{frame}</div>
        <div role=main class=document><div itemprop=articleBody><section id=x><h1>{content}</h1><p>{article}</p>
        <div class="admonition note"><p>{content}</p></div></section></div></div>
        <footer><div class=rst-footer-buttons role=navigation>{frame}</div><p>{frame}</p></footer></div></div></section>
        </div><div class=rst-versions role=note>{frame}</div>""",
    "sphinx furo": """<title>{content} - Project</title><header class=mobile-header>{frame}</header>
        <aside class=sidebar-drawer><div class=sidebar-container><ul><li>{frame}</ul></div></aside>
        <div class=main><div class=content><div class=article-container>
        <article role=main id=furo-main-content><section><h1>{content}</h1><p>{article}</p>
        <table class=docutils><tr><td>{content}</td></tr></table></section></article></div>
        <footer><div class=related-pages>{frame}</div></footer></div><aside class=toc-drawer>{frame}</aside></div>""",
    "sphinx pydata": """<title>{content} — Project</title><header class=bd-header><nav>{frame}</nav></header>
        <div class=bd-container><dialog id=pst-primary-sidebar-modal></dialog>
        <div id=pst-primary-sidebar class="bd-sidebar-primary bd-sidebar"><nav>{frame}</nav></div>
        <main id=main-content class=bd-main role=main><div class=bd-content><div class=bd-article-container>
        <div class=bd-header-article><nav aria-label=Breadcrumb>{frame}</nav></div>
        <article class=bd-article><section><h1>{content}</h1><p>{article}</p><aside class=topic>{content}</aside>
        </section>
        </article><footer class=prev-next-footer>{frame}</footer></div>
        <aside class=bd-sidebar-secondary>{frame}</aside></div></main></div><footer class=bd-footer>{frame}</footer>""",
    "mkdocs": """<title>{content} - My Docs</title>
        <nav data-toggle=wy-nav-shift class="wy-nav-side stickynav">{frame}</nav>
        <section class=wy-nav-content-wrap><nav class=wy-nav-top role=navigation>{frame}</nav>
        <div class=rst-content><div role=navigation>{frame}</div><div role=main class=document><div class=section>
        <h1>{content}</h1><p>{article}</p><pre><code>{content}</code></pre></div></div>
        <footer><p>{frame}</p></footer></div></section><div class=rst-versions role=note>{frame}</div>""",
    "mkdocs material": """<title>{content} - My Docs</title><div data-md-component=skip><a>{frame}</a></div>
        <header class=md-header><nav class=md-header__inner><span>{frame}</span><div class=md-search role=dialog>{frame}
        </div></nav></header><div class=md-container><nav class=md-tabs>{frame}</nav>
        <main class=md-main><div class="md-main__inner md-grid">
        <div class="md-sidebar md-sidebar--primary"><nav class=md-nav><ul><li>{frame}</ul></nav></div>
        <div class="md-sidebar md-sidebar--secondary"><nav class=md-nav>{frame}</nav></div>
        <div class=md-content><article class="md-content__inner md-typeset"><h1>{content}</h1><p>{article}</p>
        <div class="admonition tip"><p>{content}</p></div><details><summary>{content}</summary>{content}</details>
        <aside class=md-source-file>{content}</aside></article></div></div></main>
        <footer class=md-footer>{frame}</footer></div>""",
    "docusaurus": """<title>{content} | My Site</title><div role=region aria-label="Skip to main content">
        <a>{frame}</a></div>
        <nav class="navbar navbar--fixed-top">{frame}</nav><div class=main-wrapper><div class=docsWrapper>
        <aside class=theme-doc-sidebar-container><nav class=menu><ul><li>{frame}</ul></nav></aside>
        <main class=docMainContainer><div class=container><div class=row><div class=col><article>
        <nav class=theme-doc-breadcrumbs>{frame}</nav><div class=markdown><header><h1>{content}</h1></header>
        <p>{article}</p><div class=tabs-container><ul role=tablist><li role=tab>{content}</ul></div></div>
        <footer class=theme-doc-footer>{content}</footer></article><nav class=pagination-nav>{frame}</nav></div></div>
        </div></main></div></div><footer class=footer>{frame}</footer>""",
    "hugo ananke": """<title>{content} | Site</title><header class=cover><nav role=navigation>{frame}</nav>
        <div><h1>{content}</h1><h2>{content}</h2><ul><li><a>{frame}</a></ul></div></header>
        <main class=pb7 role=main><article><section><p>{article}</p></section></article></main>
        <footer role=contentinfo>{frame}</footer>""",
    "jekyll minima": """<title>{content} | Site</title><header class=site-header role=banner>
        <a class=site-title>{frame}</a>
        <nav class=site-nav>{frame}</nav></header><main class=page-content><div class=wrapper>
        <article class=post><header class=post-header><h1>{content}</h1><p class=post-meta><time>{content}</time> •
        <span>{content}</span></p></header><div class=post-content><p>{article}</p>
        <figure><img src=x><figcaption>{content}</figcaption></figure><blockquote>{content}</blockquote></div></article>
        </div></main><footer class="site-footer h-card">{frame}</footer>""",
    "hyde, divisions by class": """<title>{content} &middot; Site</title><div class=sidebar><div class="container">
        <div class=sidebar-about><h1><a>{frame}</a></h1><p>{frame}</p></div><nav class=sidebar-nav>{frame}</nav>
        </div></div>
        <div class="content container"><div class=post><h1 class=post-title>{content}</h1>
        <span class=post-date>{content}</span><p>{article}</p></div><div class=related><h2>{content}</h2></div>
        </div>""",
    "divisions by id": """<title>{content} :: Site</title><div id=header><p>{frame}</p><div class=links>{frame}</div>
        </div>
        <div id=nav><ul><li><a>{frame}</a></ul></div><div id=content><h1>{content}</h1><p>{article}</p>
        <div class=header>{content}</div><div class=menu>{content}</div><div class=footer>{content}</div>
        <form><label>{content}</label><select><option>{content}</select><textarea>{content}</textarea></form></div>
        <div id=footer>{frame}</div>""",
    "wordpress": """<title>{content} &#8211; Blog</title><div id=page><a class=skip-link>{frame}</a>
        <header id=masthead class=site-header><p class=site-title>{frame}</p><nav id=site-navigation>{frame}</nav>
        </header>
        <div id=content><div id=primary><main id=main class=site-main><article id=post-1 class=post>
        <header class=entry-header><h1>{content}</h1><div class=entry-meta>{content}</div></header>
        <div class=entry-content><p>{article}</p><table><caption>{content}</caption><tr>
        <th>Price<td>{content}</table></div>
        <footer class=entry-footer>{content}</footer></article><nav class=post-navigation>{frame}</nav>
        <section id=comments><ol><li><article><footer>{content}</footer><p>{content}</p></article></ol></section></main>
        </div><aside id=secondary class=widget-area>{frame}</aside></div><footer id=colophon>{frame}</footer></div>""",
    "wordpress without main": """<title>{content} &laquo; Blog</title><div id=page>
        <div id=header role=banner>{frame}</div>
        <div id=content class=narrowcolumn><h2>{content}</h2><div class=entry><p>{article}</p>
        <p class=postmetadata>{content}</p></div></div><div id=sidebar role=complementary><ul><li>{frame}</ul></div>
        <div id=footer role=contentinfo><p>{frame}</p></div></div>""",
    "wikipedia": """<title>{content} - Wikipedia</title><div id=mw-page-base></div>
        <div id=content class=mw-body role=main><h1 id=firstHeading>{content}</h1><div id=bodyContent>
        <div id=siteSub>{content}</div><div class=mw-parser-output><table class=infobox><tr><td>{content}</table>
        <p>{article}</p><div id=toc class=toc role=navigation>{frame}</div><ul><li>{content}</ul></div></div></div>
        <div id=mw-navigation><h2>{frame}</h2><div id=mw-head>{frame}</div><div id=mw-panel>{frame}</div></div>
        <footer id=footer role=contentinfo>{frame}</footer>""",
    "api reference with notices": """<title>{content} | API</title><div class=toc-wrapper><nav>{frame}</nav></div>
        <div class=page-wrapper><div class=content><h1>{content}</h1><p>{article}</p>
        <aside class=notice>{content}</aside><aside role=note>{content}</aside></div></div>""",
    "elements alone": """<title>{content}</title><header><p>{frame}</p></header><nav>{frame}</nav>
        <search>{frame}</search>
        <article><header><h1>{content}</h1><p>{content}</p></header><p>{article}</p><aside>{content}</aside>
        <footer>{content}</footer></article><section><header>{content}</header><p>{content}</p></section>
        <aside>{frame}</aside><div role=menubar>{frame}</div><div role=toolbar>{frame}</div><footer>{frame}</footer>""",
    "main without an article": """<title>{content}</title><nav>{frame}</nav><main><header><h1>{content}</h1></header>
        <p>{article}</p><aside>{content}</aside><footer>{content}</footer></main><div>{frame}</div>""",
    "a table and nothing said": """<title>{content}</title><table><tr><td><a>{content}</a></td><td><h1>{content}</h1>
        <p>{article}</p></td></tr></table>""",
    "posts in divisions": """<title>{content}</title><header>{frame}</header><div class=post><header><h2>{content}</h2>
        </header><p>{article}</p><footer>{content}</footer></div><div class=post>
        <header><h1>{content}</h1><a>{content}</a></header><p>{content}</p><footer>{content}</footer></div><footer>{frame}</footer>""",
    "a banner with the title": """<title>{content}</title><header role=banner><nav>{frame}</nav><h1>{content}</h1>
        <a>{frame}</a></header><div role=main><p>{article}</p></div><footer role=contentinfo>{frame}</footer>""",
    "several articles": """<title>{content}</title><header>{frame}</header><main><article><h2>{content}</h2>
        <p>{article}</p>
        </article><article><h2>{content}</h2><footer>{content}</footer></article><aside>{frame}</aside></main>""",
}  # fmt: skip


def places(page: str, kind: str) -> int:
    """How many places of a kind, `content` or `frame`, a page has."""
    return page.count(f"{{{kind}}}")


def build(page: str, kind: str = "", place: int = -1) -> bytes:
    """The page, with another word at one place of a kind."""
    for name in ("content", "frame"):
        parts = page.split(f"{{{name}}}")
        edited = place if name == kind else -1
        words = [f"{name} {'edit' if n == edited else 'word'} {n}" for n in range(len(parts) - 1)]
        page = parts[0] + "".join(word + part for word, part in zip(words, parts[1:], strict=True))
    return page.replace("{article}", ARTICLE).encode()
