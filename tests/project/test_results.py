"""README shows what docs/results.md found, and that page says how it was made."""

from tests.support.process import ROOT

README, RESULTS, PICTURE = ROOT / "README.md", ROOT / "docs/results.md", ROOT / "docs/freshness.svg"
BEGIN, END = "<!-- the table of docs/results.md -->", "<!-- its end -->"
SMALL_BEGIN, SMALL_END = "<!-- the small table of docs/results.md -->", "<!-- end of the small table -->"


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
