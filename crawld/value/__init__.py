"""What crawling a page is worth. Front door: `value.py`, and `valuation.py` for whoever picks by values.

Nouns: x, the log-staleness of a copy; V, the crawl value; ψ, the length of a cycle; w, the fresh time in it; a
*valuation*, one policy's way to value pages (`greedy.py`), over known rates or over the posterior of α; a *Taylor
model*, a value with its motion in time; a *ceiling*, what a value cannot exceed; a *crossing*, when it reaches a level.

Invariants: no value falls with time or with signals; V is good to 1e-13; arrays (`series.py`) and their scalar twins
(`scalar.py`) agree to 1e-12, and in `expected.py` they stand side by side; a page's value does not depend on the pages
evaluated with it. Pure functions of numbers: nothing here knows hosts, slots or the clock.
"""
