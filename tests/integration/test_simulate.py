"""`crawld simulate` as a person runs it."""

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from functools import partial
from pathlib import Path

import pytest

from tests.support.process import runs

COMMAND = [sys.executable, "-m", "crawld", "simulate"]
NAMES = (
    "orders", "allocation", "azar", "discrete", "partial-signals", "false-signals", "corrupted-signals",
    "delayed-signals", "bandwidth-change", "estimation", "lambdacrawl", "learning", "objectives", "peers",
)  # fmt: skip


def _simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=300, check=False)


def test_the_list_has_every_experiment() -> None:
    """`--list` names them all."""
    listed = _simulate("--list")
    assert listed.returncode == 0
    assert all(name in listed.stdout for name in NAMES)


def test_an_experiment_prints_json_and_draws_its_figure(tmp_path: Path) -> None:
    """Standard output is one JSON document, and the figure a well-formed SVG, whatever the progress bar says."""
    figure = tmp_path / "orders.svg"
    arguments = ("orders", "--pages", "20,40", "--repeat", "2", "--seed", "3", "--json", "--plot", str(figure))
    done = _simulate(*arguments)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["experiment"] == "orders"
    assert document["settings"]["pages"] == [20, 40]
    assert {row["repeats"] for row in document["rows"]} == {2}
    assert len(document["rows"]) == 2 * 9
    ET.parse(figure)


def test_the_same_seed_gives_the_same_result_on_any_number_of_processes() -> None:
    """A run can be repeated to the last digit."""
    arguments = ("orders", "--pages", "20", "--repeat", "2", "--seed", "5", "--json")
    assert _simulate(*arguments).stdout == _simulate(*arguments, "--jobs", "2").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nonsense",), "there is no experiment 'nonsense'"),
        (("orders", "--pages", "ten"), "'ten' is not a list of whole numbers"),
        (("orders", "--pages", "0"), "0 is too small"),
        (("orders", "--repeat", "0"), "--repeat: 0 is too small"),
        (("orders", "--jobs", "0"), "--jobs: 0 is too small"),
        (("orders", "--plot", "/nowhere/at/all.svg"), "there is no directory /nowhere/at"),
    ],
)
def test_bad_arguments_are_answered_with_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    """What was wrong is said, without a traceback, and the status is 2."""
    answer = _simulate(*arguments)
    assert answer.returncode == 2
    assert sentence in answer.stderr
    assert "Traceback" not in answer.stderr


def test_an_interrupt_ends_it_with_all_its_processes() -> None:
    """Ctrl-C leaves no process behind and no traceback."""
    arguments = [*COMMAND, "estimation", "--pages", "1000", "--repeat", "20", "--jobs", "2"]
    listening = partial(signal.signal, signal.SIGINT, signal.default_int_handler)  # a background job ignores SIGINT
    with subprocess.Popen(
        arguments,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=listening,  # noqa: PLW1509 - one call that takes no lock
    ) as running:
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        while running.poll() is None and len(children.read_text().split()) < 3:  # two workers and their tracker
            time.sleep(0.05)
        workers = [int(pid) for pid in children.read_text().split()]
        while running.poll() is None:  # the first may come before it listens
            os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to every process
            time.sleep(1.0)
        assert running.returncode == 130
        assert running.stderr is not None
        said = running.stderr.read()
    assert "Interrupted" in said
    assert "Traceback" not in said
    for _ in range(200):  # the tracker ends a moment after the process that it tracks for
        if not any(map(runs, workers)):
            break
        time.sleep(0.1)
    assert not any(map(runs, workers))
