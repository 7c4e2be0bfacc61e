"""The freshness benchmark: what its rows say, and that README shows what docs/results.md found."""

import csv
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from benchmarks.freshness import finite, jobs, verdict
from benchmarks.freshness_docs import (
    BEGIN,
    END,
    PICTURE,
    README,
    RESULTS,
    SMALL_BEGIN,
    SMALL_END,
    document,
    head_table,
    picture,
    whole_table,
)
from benchmarks.freshness_runs import BUDGETS, CRAWLD, Job, measure
from benchmarks.freshness_summary import Result, Row, summarise
from benchmarks.freshness_worlds import HISTORY, NCIS, WEBLIKE, WEIGHTS, Spec
from crawld.policies.policies import POLICIES
from crawld.sim.contestants import LEARNERS
from crawld.sim.peers import PEERS


def _results(theirs: float, kind: str = HISTORY) -> list[Result]:
    """Crawld at .8 in two worlds, the other at `theirs` in the first and .7 in the second."""
    reached = [("one", CRAWLD, 0.8), ("two", CRAWLD, 0.8), ("one", "nutch", theirs), ("two", "nutch", 0.7)]
    rest = {"age": 1.0, "delay": 2.0, "missed": 0.1, "used": 1.0}
    return [
        Result("peers", kind, world, 1.0, contestant, "equal", {"freshness": fresh, **rest})
        for world, contestant, fresh in reached
    ]


def _row(results: list[Result]) -> Row:
    return next(row for row in summarise(results) if row.contestant == "nutch")


def test_leads_are_paired_world_by_world() -> None:
    """The lead is the mean difference in the same worlds, with its standard error over them."""
    row = _row(_results(0.6))
    assert row.lead == pytest.approx(0.15)
    assert row.stderr == pytest.approx(0.05)
    assert row.above
    assert verdict(row) == "above"


def test_a_lost_history_is_named() -> None:
    """Below in one history by more than .002 is said with its name, budget and lead, though above on average."""
    row = _row(_results(0.81))
    assert row.above
    assert [(loss.where, loss.budget) for loss in row.losses] == [("one", 1.0)]
    assert "one at 1 -0.010" in verdict(row)


def test_drawn_worlds_are_judged_together() -> None:
    """One drawn world that is lost by chance is no loss where the mean over worlds is a lead."""
    assert _row(_results(0.81, WEBLIKE)).losses == []


def test_below_on_average_is_said() -> None:
    """The verdict shouts where crawld is behind."""
    row = _row(_results(0.95))
    assert not row.above
    assert verdict(row).startswith("BELOW")


@pytest.mark.parametrize("full", [False, True])
def test_everyone_runs_in_every_world(full: bool) -> None:
    """All peers at all budgets, and all policies."""
    peers = list(jobs("peers", full=full))
    assert {job.contestant for job in peers} == {CRAWLD, "uniform", *LEARNERS, *PEERS}
    assert {job.budget for job in peers} == set(BUDGETS)
    assert {job.contestant for job in jobs("policies", full=full)} == set(POLICIES)


@pytest.mark.parametrize("contestant", [CRAWLD, "uniform", "stormcrawler-adaptive"])
def test_a_run_measures_everything(contestant: str) -> None:
    """Freshness and shares lie between 0 and 1, ages and delays are not negative, and a seed gives them again."""
    spec = Spec(NCIS, "Busa-Fekete et al. 2025 1", 1, 8, 12.0)
    job = Job(spec, 1.0, contestant, WEIGHTS[NCIS])
    found = measure(job)["as drawn"]
    assert all(0 <= found[name] <= 1 for name in ("freshness", "missed", "used"))
    assert found["age"] >= 0
    assert found["delay"] >= 0
    assert found == measure(job)["as drawn"]


def test_importance_matters_to_crawld_alone() -> None:
    """By two weightings crawld runs twice and a peer once, judged by each."""
    spec = Spec(WEBLIKE, "weblike 1", 1, 40, 40.0)
    ours, theirs = (measure(Job(spec, 0.5, name, WEIGHTS[WEBLIKE])) for name in (CRAWLD, "nutch"))
    assert set(ours) == set(theirs) == {"equal", "Zipf"}
    assert theirs["equal"]["used"] == theirs["Zipf"]["used"]
    assert theirs["equal"]["freshness"] != theirs["Zipf"]["freshness"]
    assert ours["Zipf"]["freshness"] > theirs["Zipf"]["freshness"]


def test_json_has_null_for_what_is_not_a_number() -> None:
    """A delay of nobody's is null."""
    assert finite({"a": [np.nan, 1.0], "b": "x"}) == {"a": [None, 1.0], "b": "x"}


def test_readme_shows_a_few_figures_of_the_results() -> None:
    """Those of crawld, round robin and two crawlers by name, with the picture beside them."""
    shown, told = (file.read_text().split(SMALL_BEGIN)[1].split(SMALL_END)[0].strip() for file in (README, RESULTS))
    assert shown == told
    assert len(shown.splitlines()) == 6
    assert RESULTS.read_text().count(BEGIN) == RESULTS.read_text().count(END) == 1
    assert "docs/freshness.svg" in README.read_text()
    assert PICTURE.read_text().startswith("<svg")


def test_results_say_how_they_were_made() -> None:
    """The command, the seeds and the machine, and no path of it."""
    text = RESULTS.read_text()
    assert "`python -m benchmarks.freshness" in text
    assert "seeds" in text
    assert "cores" in text
    assert "/home" not in text
    assert "**Where crawld loses.**" in text


def test_help_names_the_options() -> None:
    """`--help` answers without running anything."""
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.freshness", "--help"],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
    ).stdout  # fmt: skip
    assert all(option in told for option in ("--json", "--plot", "--full", "--part"))


def test_the_document_is_made_of_any_run() -> None:
    """Rows of a run become tables, losses, a picture and a file of every figure."""
    results = []
    for name in (CRAWLD, "uniform", *PEERS):
        for budget in BUDGETS:
            measures = {"freshness": 0.5 + budget / 10, "age": 1.0, "delay": np.nan, "missed": 0.0, "used": 1.0}
            results.append(Result("peers", HISTORY, "site", budget, name, "equal", measures))
    rows = json.loads(json.dumps(finite([asdict(row) for row in summarise(results)])))
    settings = {"command": "python -m benchmarks.freshness", "machine": "2 cores", "seeds": {"peers": [0, 1]},
                "sizes": {"peers": {"history_pages": 1, "most_slots": 1, "ncis_pages": 1, "weblike_pages": 1}},
                "histories": []}  # fmt: skip
    text = document([{"settings": settings, "rows": rows}])
    assert head_table(rows) in text
    assert "**Where crawld loses.**" in text
    every = list(csv.DictReader(whole_table(rows).splitlines()))
    assert [row["contestant"] for row in every] == [row["contestant"] for row in rows]
    assert {row["world"] for row in every} == {"real sites"}
    assert picture(rows).startswith("<svg")
