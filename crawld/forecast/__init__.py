"""What freshness a bandwidth buys, from what is believed of the pages. Front door: `forecast.py`.

Nouns: a *sample*, the pages that stand for all; a page's *curve*, how often it is crawled and how fresh it is kept at
each level of the crawl value; a *point*, what all pages together reach at one bandwidth.

Invariants: nothing here reads a clock, a store or a setting; the rates of all pages sum to no more than the bandwidth,
and those of a host's pages to no more than its politeness allows; more bandwidth never buys less freshness, a whole
number of slots between two requests to a host aside.
"""
