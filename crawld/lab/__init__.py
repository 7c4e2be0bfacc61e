"""A laboratory: a real site on loopback that lives a world in accelerated time, and knows how fresh each crawler is.

A `Scenario` (scenario.py) is a world of the simulator in real seconds, with host names. `LabSite` (site.py) serves it
over HTTP: pages that change, sitemaps, robots.txt, validators, errors. `Scoreboard` (score.py) writes down what was
served to whom and gives the true freshness of every crawler's copies. `Contest` (contest.py) lets several real daemons
crawl the site at once, and `simulated_freshness` (simulated.py) says what the simulator expects of the same world.

`open_history` (replayed.py) reads recorded histories for a comparison without daemons, and `GitHistory`
(git_history.py) makes one out of a git repository (git_repository.py) of a published site.
"""
