"""What slots were spent on: counted by use and outcome while the daemon runs, and kept minute by minute."""

from collections import Counter
from pathlib import Path

from crawld.model.fetched import IDLE, OUTCOMES, SKIPPED, Use
from crawld.model.why import Why
from tests.support.daemon import rows, running, until
from tests.support.site import Site


async def test_every_request_and_idle_slot_is_kept_by_what_it_was_for(tmp_path: Path) -> None:
    """The site's own log agrees with what was counted and stored: robots.txt, pages, hops and audits apart."""
    async with Site() as site:
        paths = ["/ok/1", "/cue/1", "/absent", f"/redirect/1?to={site.url('/ok/there')}"]
        async with running(tmp_path, [site.url(path) for path in paths], audit={"share": 0.2}) as daemon:
            status = daemon.crawler.status
            await until(lambda: status.by_purpose().get("audit", 0) >= 2 and len(site.visits("/ok/there")) >= 2)
            await until(lambda: status.idle_slots > 0)
            daemon.crawler.change_bandwidth(0.0)
            await until(lambda: status.in_flight == 0 and status.waiting == 0)
            assert sum(status.idle.values()) == status.idle_slots
        visits = site.visits()
    kept = Counter({(use, outcome): slots for use, outcome, slots in rows(tmp_path, QUERY)})
    assert kept == status.spent() + Counter()
    requests = {key: count for key, count in kept.items() if key[0] not in {IDLE, SKIPPED}}
    assert sum(requests.values()) == status.requests == len(visits)
    assert {use for use, _ in requests} <= {use.value for use in Use}
    assert {outcome for _, outcome in requests} <= set(OUTCOMES)
    assert kept["robots", "ok"] + kept["robots", "gone"] == sum(seen.path == "/robots.txt" for seen in visits)
    hops = sum(count for (use, _), count in kept.items() if use == "redirect")  # a later one may be answered by 304
    assert hops == sum(seen.path == "/ok/there" for seen in visits)
    assert {why for use, why in kept if use == IDLE} <= {why.value for why in Why}
    assert status.slots == status.idle_slots + status.requests


QUERY = "SELECT use, outcome, sum(slots) FROM slot_history GROUP BY 1, 2"
