"""Statistics over repeats and how they are shown."""

import json
import math
import xml.etree.ElementTree as ET

import pytest
from rich.console import Console

from crawld.research.trial import (
    Experiment,
    Outcome,
    Trial,
    as_chart,
    as_json,
    conclude,
    print_tables,
    run_trials,
    standard_error,
)


def _measure(trial: Trial) -> dict[str, float]:
    """World luck that is shared, and a gain that is not."""
    luck = 0.1 * trial.repeat
    return {"accuracy": 0.5 + luck + (0.01 if trial.contestant == "good" else 0.0), "age": math.inf}


EXPERIMENT = Experiment(
    name="toy", shows="nothing", pages=(10, 20), repeats=3, contestants=("good", "bad"), measure=_measure,
    pairs=(("good", "bad"),), settings={"bandwidth": 1},
)  # fmt: skip


def _outcome(jobs: int = 1) -> Outcome:
    trials = EXPERIMENT.trials(EXPERIMENT.pages, EXPERIMENT.repeats, 1)
    return conclude(EXPERIMENT, dict(run_trials(EXPERIMENT, trials, jobs)), 1)


def test_paired_differences_are_free_of_the_scatter_between_worlds() -> None:
    """What both contestants share cancels: the difference is exact though each mean is uncertain."""
    outcome = _outcome()
    assert outcome.rows[0].errors["accuracy"] > 0.05
    assert outcome.paired[0].difference == pytest.approx(0.01)
    assert outcome.paired[0].stderr == pytest.approx(0.0, abs=1e-12)


def test_several_processes_find_the_same() -> None:
    """The number of processes changes nothing in the result."""
    assert as_json(_outcome(jobs=2)) == as_json(_outcome())


def test_json_has_the_promised_fields_and_no_infinity() -> None:
    """The document has experiment, settings, rows and pairs; what is not finite is null."""
    document = json.loads(as_json(_outcome()))
    assert set(document) == {"experiment", "settings", "rows", "paired"}
    assert document["settings"] == {"bandwidth": 1, "pages": [10, 20], "repeats": 3, "seed": 1}
    assert {"policy", "pages", "accuracy", "stderr", "repeats"} <= set(document["rows"][0])
    assert document["rows"][0]["age"] is None
    assert set(document["paired"][0]) == {"a", "b", "pages", "difference", "stderr"}


def test_tables_name_every_contestant() -> None:
    """The printed tables hold each policy, the difference and the settings."""
    console = Console(width=200, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as captured:
        print_tables(_outcome(), console)
    text = captured.get()
    assert all(word in text for word in ("good", "bad", "+0.0100", "bandwidth: 1", "seed: 1"))


def test_the_chart_is_well_formed_and_has_a_line_for_each_policy() -> None:
    """The SVG parses, and draws as many lines as there are contestants."""
    root = ET.fromstring(as_chart(_outcome()))
    assert len(root.findall(".//{http://www.w3.org/2000/svg}polyline")) == 2


def test_one_value_has_no_standard_error() -> None:
    """A single repeat says nothing of its scatter."""
    assert math.isnan(standard_error([0.3]))
