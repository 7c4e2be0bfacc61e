"""Busa-Fekete et al. 2025 appendix E: how well precision and recall can be told from what crawls find."""

import numpy as np
from numpy.typing import NDArray

from crawld.learn.observations import Prior
from crawld.research.gamma_posterior import fit_pages
from crawld.research.population import EVENTS, PARAMETERS, VISITS, Floats, page_stream, run_key
from crawld.research.trial import Experiment, Measures, Trial
from crawld.research.world import Ints

Bools = NDArray[np.bool_]

HORIZON = 100_000.0
VAGUE = Prior(alpha_shape=1.0, alpha_rate=1e-9, kappa_shape=1.0, kappa_rate=1e-9)
"""So weak that the posterior's highest point is the maximum of the likelihood."""
WARY = Prior(alpha_shape=1.0, alpha_rate=10.0, kappa_shape=1.0, kappa_rate=1.0)
"""A page changes every ten units of time and one signal in two or so is true, give or take a lot."""


def intervals(page: int, key: int, crawls: int | None) -> tuple[Floats, Ints, Bools, tuple[float, float]]:
    """(τ, signals, changed) of a page crawled at random moments, and its true precision and recall."""
    draw = page_stream(key, page, PARAMETERS)
    precision, recall = draw.uniform(0.2, 0.95, 2)
    delta = 1.0 / draw.uniform(2.0, 20.0)
    every = 1.0 / (delta * 4.0 ** draw.uniform(-1.0, 1.0))
    count = int(HORIZON / every) if crawls is None else crawls
    times = np.cumsum(page_stream(key, page, VISITS).exponential(every, count))
    horizon = float(times[-1])
    stream = page_stream(key, page, EVENTS)
    changes = horizon * stream.random(stream.poisson(delta * horizon))
    announced = changes[stream.random(len(changes)) < recall]
    false = horizon * stream.random(stream.poisson(recall * delta * (1 - precision) / precision * horizon))
    seen = np.bincount(np.searchsorted(times, changes), minlength=count)[:count]
    heard = np.bincount(np.searchsorted(times, np.concatenate([announced, false])), minlength=count)[:count]
    return np.diff(times, prepend=0.0), heard, seen > 0, (float(precision), float(recall))


def counted(heard: Ints, changed: Bools) -> tuple[float, float]:
    """Precision and recall as shares of intervals: what Busa-Fekete et al. 2025 calls the statistical approach."""
    both = float(np.sum((heard > 0) & changed))
    return both / max(float(np.sum(heard > 0)), 1.0), both / max(float(np.sum(changed)), 1.0)


def quality(alpha: float, kappa: float, gamma: float) -> tuple[float, float]:
    """Precision and recall that (α, κ, γ) stand for (docs/method.md, "The model")."""
    precision = -float(np.expm1(-kappa))
    announced = gamma * precision
    return precision, announced / (alpha + announced) if alpha + announced > 0 else 0.0


def measure(trial: Trial) -> Measures:
    """Bias and root mean square error over the pages."""
    key = run_key(trial.seed, trial.repeat)
    method, _, crawls = trial.contestant.partition(" after ")
    limit = int(crawls.removesuffix(" crawls")) if crawls else None
    errors = []
    for page in range(trial.pages):
        tau, heard, changed, (precision, recall) = intervals(page, key, limit)
        if method == "counted":
            guess = counted(heard, changed)
        else:
            prior = VAGUE if method == "likelihood" else WARY
            posterior = fit_pages([0, len(tau)], tau, heard, changed, prior)
            gamma = float(heard.sum() / tau.sum())
            guess = quality(float(posterior.alpha[0]), float(posterior.kappa[0, 0]), gamma)
        errors.append((guess[0] - precision, guess[1] - recall))
    bias, rmse = np.mean(errors, axis=0), np.sqrt(np.mean(np.square(errors), axis=0))
    return {
        "accuracy": 1.0 - float(rmse.mean()),
        "precision_bias": float(bias[0]),
        "precision_rmse": float(rmse[0]),
        "recall_bias": float(bias[1]),
        "recall_rmse": float(rmse[1]),
    }


ESTIMATION = Experiment(
    name="estimation",
    shows="Busa-Fekete et al. Figs. 10, 11: counting intervals overstates precision and recall, the model does not",
    pages=(200,),
    repeats=3,
    contestants=(
        "counted", "likelihood", "posterior", "likelihood after 30 crawls", "posterior after 30 crawls",
        "likelihood after 5 crawls", "posterior after 5 crawls",
    ),
    measure=measure,
    pairs=(
        ("likelihood", "counted"), ("posterior", "likelihood"),
        ("posterior after 30 crawls", "likelihood after 30 crawls"),
        ("posterior after 5 crawls", "likelihood after 5 crawls"),
    ),
    settings={
        "accuracy": "1 - root mean square error of precision and recall",
        "horizon": HORIZON,
        "precision, recall": "U(.2, .95)",
        "mean time between changes": "U(2, 20)",
        "crawls per change": "4^U(-1, 1), at random moments",
        "prior of 'posterior'": "alpha ~ Gamma(1, 10), kappa ~ Gamma(1, 1)",
    },
)  # fmt: skip
