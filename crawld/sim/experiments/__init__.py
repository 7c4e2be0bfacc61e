"""The experiments, by name."""

from crawld.sim.experiments import (
    azar,
    changing,
    cho,
    estimation,
    fleet,
    lambdacrawl,
    learning,
    ncis,
    objectives,
    quality,
)
from crawld.sim.trial import Experiment

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
