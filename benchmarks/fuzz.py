"""Damaged files by the hundred thousand, and files made to be slow: every parser must read them or refuse by name.

    python -m benchmarks.fuzz --inputs 100000
    python -m benchmarks.fuzz --inputs 0 --largest 10000000 --parser page

Each damaged input is a well-formed file, mutated a few times by a generator with a fixed seed, so that every run is the
same and a number names its input: `--only N` repeats it. Bombs come from `tests.support.fuzz`, each in growing
sizes up to `--largest`. A fault is an exception that is not one of the named ones, and an input that costs more than
100 ms or 32 MB up to 256 KB (larger ones in proportion, 25 ms for what runs on the event loop). Exit status 1 then.
"""

import json
import sys
from dataclasses import asdict

from benchmarks import argument_parser
from tests.support.fuzz.cost import bombs
from tests.support.fuzz.damage import Report, damaged, run
from tests.support.fuzz.parsers import PARSERS


def _show(report: Report) -> None:
    for name, count in sorted(report.outcomes.items()):
        print(f"{count:9,}  {name}")
    print(f"\n{'parser':20} {'inputs':>9} {'faults':>6} {'slowest ms':>10} {'heaviest MB':>11}")
    for name, parser in report.parsers.items():
        row = f"{name:20} {parser.inputs:9,} {parser.faults:6} {parser.slowest_ms:10,.1f} {parser.heaviest_mb:11,.1f}"
        print(f"{row}  {parser.slowest}; {parser.heaviest}")


def main() -> int:
    """Run from the command line."""
    options = argument_parser(__doc__)
    options.add_argument("--inputs", type=int, default=100_000, help="damaged files")
    options.add_argument("--largest", type=int, default=1_000_000, help="bytes of the largest bomb; 0 for no bombs")
    options.add_argument("--parser", choices=PARSERS, help="give bombs to this parser alone")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", type=int, help="repeat the damaged input of this number and show it")
    given = options.parse_args()
    if given.only is not None:
        print(damaged(given.only, given.seed))
        report = run(1, given.seed, given.only)
    else:
        report = run(given.inputs, given.seed)
        if given.largest:
            report.add_bombs(bombs(given.largest, given.parser))
    if given.json:
        parsers = {name: asdict(parser) for name, parser in report.parsers.items()}
        found = {"inputs": report.inputs, "faults": len(report.faults), "outcomes": dict(report.outcomes)}
        print(json.dumps(found | {"parsers": parsers}))
    else:
        _show(report)
    for fault in report.faults[:100]:
        print(fault, file=sys.stderr)
    print(f"{report.inputs:,} inputs, {len(report.faults)} faults", file=sys.stderr)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
