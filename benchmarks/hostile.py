"""Attacks on a real daemon beside good pages: what the good pages keep, and whether the daemon still answers.

    python -m benchmarks.hostile [--json] [--seconds 20] [--attack NAME …] [--together 600] [--rate 100] [--list]

The good site has thirty pages for each request a second, on twice as many hosts as requests a second. A daemon learns
them once; every run starts from a copy of its database, crawls calmly for a few seconds, and is then given the hostile
pages over its control socket, while a watcher in a process of its own looks on. `calm` is a run without hostile pages.

Settings are the defaults but for `bandwidth`, `min_interval` (5 s, so that changing pages come up again within a run),
`allow_private`, `api.listen`, `api.public_url` (IndexNow is open) and the log level. The good pages alone use all the
bandwidth of the calm run. In an attack the bandwidth is raised by what its pages may fairly have: one request each
`min_interval`, a quarter of the calm rate at most. So whatever the good pages lose is lost to more requests than that,
to stalls, or to places taken up.

- good_share: requests for good pages by the good site's log, a second, as a share of those in the seconds before the
  attack: what else the machine does at that time slows both
- longest_silence_ms: the longest wait for an answer of the control socket
- oldest_uncommitted_ms: the longest time from the end of a good page's crawl to its row visible in the database; a
  request whose crawl is never seen counts from when it came
- extra_memory_mb: the most memory of the daemon and its child processes, above the most of the calm run
- machine_stall_ms: how long the machine kept a process waiting that did nothing: the figures above include such waits
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import argument_parser
from benchmarks.hostile_run import bench
from tests.support.attacks.figures import share_of, table
from tests.support.attacks.site import ATTACKS


async def run(names: Sequence[str], seconds: float, together: float, rate: float) -> dict[str, Any]:
    """Run the attacks one after the other, then all at once; the figures."""
    with tempfile.TemporaryDirectory() as made:
        async with bench(Path(made), rate) as on:
            calm = await on.measure((), seconds)
            found = []
            for name in names:
                least = max(seconds, ATTACKS[name].least_seconds)
                found.append({"name": name} | share_of(await on.measure((name,), least), calm))
                print(table(found[-1:], heading=len(found) == 1), file=sys.stderr, flush=True)
            result: dict[str, Any] = {"calm": calm, "attacks": found}
            if together:
                result["together"] = share_of(await on.measure(names, together), calm)
            measured = [calm, *found, *([result["together"]] if together else [])]
            return result | {"machine_stall_ms": max(one["machine_stall_ms"] for one in measured), "rate": rate}


def main() -> None:
    """Run and print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--together", type=float, default=600, help="seconds for all attacks at once; 0: not at all")
    parser.add_argument("--attack", nargs="+", choices=list(ATTACKS), default=list(ATTACKS))
    parser.add_argument("--list", action="store_true", help="say what each attack does")
    given = parser.parse_args()
    if given.list:
        for attack in ATTACKS.values():
            print(f"{attack.name:22} {attack.sentence}")
        return
    result = asyncio.run(run(given.attack, given.seconds, given.together, given.rate))
    if given.json:
        print(json.dumps(result, indent=2))
        return
    rows = [{"name": "calm"} | result["calm"], *result["attacks"]]
    if "together" in result:
        rows.append({"name": "together"} | result["together"])
    print(table(rows))
    print(f"machine stall {result['machine_stall_ms']} ms")


if __name__ == "__main__":
    main()
