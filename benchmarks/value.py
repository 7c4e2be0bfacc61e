"""Cost of a crawl value: against the incomplete gamma functions its formula is written in, and learnt against known.

`python -m benchmarks.value [--json] [--pages N]` measures everything in one run, in turns, and prints ratios.
"""

import json
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from benchmarks import argument_parser
from crawld.choose.greedy import GreedyNcis
from crawld.choose.valuation import Beliefs
from crawld.choose.value import crawl_value, expected_value

Floats = NDArray[np.float64]


def population(pages: int) -> tuple[Floats, Floats, Floats, Floats]:
    """The x, α, κ and γ of pages as Busa-Fekete et al. 2025 draws them, stale by an exponential amount."""
    rng = np.random.default_rng(1)
    change, recall, false = rng.uniform(0, 1, pages), rng.beta(0.25, 0.25, pages), rng.uniform(0.1, 0.6, pages)
    recall = np.clip(recall, 1e-9, 1 - 1e-9)
    gamma = recall * change + false
    return rng.exponential(1.5, pages), (1 - recall) * change, np.log1p(recall * change / false), gamma


def seconds(work: Callable[[], object]) -> float:
    """Processor time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def gamma_terms(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats) -> tuple[Floats, Floats]:
    """Order and argument of every incomplete gamma function in the papers' two sums that matters to the result."""
    middle = gamma * x / (alpha + gamma * kappa)
    counts = np.ceil(np.minimum(x / kappa, middle + 9 * np.sqrt(middle + 10))).astype(np.intp)
    page = np.repeat(np.arange(x.size), counts)
    i = np.arange(page.size) - np.repeat(np.cumsum(counts) - counts, counts)
    by_signal = (gamma / alpha)[page] * (x[page] - i * kappa[page])
    orders = np.concatenate((i, i)).astype(np.float64) + 1
    return orders, np.concatenate((by_signal, by_signal + x[page] - i * kappa[page]))


def measure(pages: int, rounds: int = 3) -> dict[str, float]:
    """Every figure, the best of a few rounds taken in turns."""
    x, alpha, kappa, gamma = population(pages)
    few = x / kappa <= 12  # pages whose sums no asymptote shortens
    columns = [column[few] for column in (x, alpha, kappa, gamma)]
    part = max(pages // 20, 1)  # the gamma functions of a twentieth of the pages, for they fill the memory
    terms = gamma_terms(*(column[:part] for column in (x, alpha, kappa, gamma)))
    few_terms = gamma_terms(*(column[:part] for column in columns))
    tau, shape = x[: pages // 20] / alpha[: pages // 20], 3.0
    learnt = (tau, 0, shape, shape / alpha[: tau.size], kappa[: tau.size], gamma[: tau.size])
    beliefs = Beliefs(np.ones(10), alpha[:10], np.full(10, np.inf), kappa[:10], gamma[:10])
    valuation, nothing = GreedyNcis(), np.zeros(10)
    blind = Beliefs(np.ones(10), alpha[:10], np.full(10, shape), nothing, nothing)
    works: dict[str, Callable[[], object]] = {
        "all": lambda: crawl_value(x, alpha, kappa, gamma),
        "few": lambda: crawl_value(*columns),
        "gammainc": lambda: gammainc(*terms),
        "gammainc few": lambda: gammainc(*few_terms),
        "learnt": lambda: expected_value(*learnt),
        "batch": lambda: [valuation.value(tau[:10], nothing, beliefs) for _ in range(200)],
        "taylor": lambda: [valuation.taylor(tau[:10], nothing, beliefs) for _ in range(200)],
        "blind": lambda: [valuation.value(tau[:10], nothing, blind) for _ in range(200)],
    }
    best = {name: min(seconds(work) for _ in range(rounds)) for name, work in works.items()}
    per_page = best["all"] / pages
    return {
        "pages": pages,
        "crawl_value_ns_per_page": 1e9 * per_page,
        "gamma_terms_per_page": terms[0].size / part,
        "crawl_value_over_gammainc": per_page * part / best["gammainc"],
        "the_same_where_x_is_below_12_kappa": best["few"] / columns[0].size * part / best["gammainc few"],
        "expected_value_over_crawl_value": best["learnt"] / tau.size / per_page,
        "batch_of_10_us": 1e6 * best["batch"] / 200,
        "batch_of_10_taylor_us": 1e6 * best["taylor"] / 200,
        "batch_of_10_learnt_blind_us": 1e6 * best["blind"] / 200,
    }


def main() -> None:
    """Print the figures."""
    parser = argument_parser(__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    options = parser.parse_args()
    figures = measure(options.pages)
    if options.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name.replace('_', ' '):34} {figure:,.3g}")


if __name__ == "__main__":
    main()
