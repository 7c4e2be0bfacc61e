"""The experiments, by name."""

from crawld.research.experiments import (
    azar,
    changing,
    estimation,
    fleet,
    lambdacrawl,
    learning,
    ncis,
    objectives,
    quality,
)
from crawld.research.experiments import papers as cho
from crawld.research.trial import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        cho.ORDERS,
        cho.ALLOCATION,
        azar.AZAR,
        ncis.DISCRETE,
        ncis.PARTIAL_SIGNALS,
        ncis.FALSE_SIGNALS,
        quality.CORRUPTED_SIGNALS,
        changing.DELAYED_SIGNALS,
        changing.BANDWIDTH_CHANGE,
        estimation.ESTIMATION,
        lambdacrawl.LAMBDACRAWL,
        learning.LEARNING,
        objectives.OBJECTIVES,
        objectives.PEER_COMPARISON,
        fleet.FLEET,
    )
}
