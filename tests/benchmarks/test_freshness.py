"""The freshness benchmark: what its rows say, and who runs where."""

import subprocess
import sys

import numpy as np
import pytest

from crawld.choose.policies import POLICIES
from crawld.research.contestants import LEARNERS
from crawld.research.peers import PEERS
from tests.support.freshness.runs import BUDGETS, CRAWLD, Job, jobs, measure
from tests.support.freshness.summary import Result, Row, finite, summarise, verdict
from tests.support.freshness.worlds import HISTORY, NCIS, SHARED, WEBLIKE, WEIGHTS, Spec
from tests.support.process import ROOT


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


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_everyone_runs_in_every_world(full: bool, recorded: bool) -> None:
    """All peers at all budgets, and all policies, in drawn worlds alone and with recorded ones."""
    if recorded and not SHARED.is_dir():
        pytest.skip("no reference data beside the checkout")
    folder = SHARED if recorded else None
    peers = list(jobs("peers", full=full, folder=folder))
    assert (HISTORY in {job.spec.kind for job in peers}) == recorded
    assert {job.contestant for job in peers} == {CRAWLD, "uniform", *LEARNERS, *PEERS}
    assert {job.budget for job in peers} == set(BUDGETS)
    assert {job.contestant for job in jobs("policies", full=full, folder=folder)} == set(POLICIES)


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


def test_help_names_the_options() -> None:
    """`--help` answers without running anything."""
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.freshness", "--help"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    ).stdout  # fmt: skip
    assert all(option in told for option in ("--json", "--plot", "--full", "--part"))
