"""The experiments, by name."""

from crawld.research.experiments import fleet, learning, ncis, objectives
from crawld.research.experiments import ncis as changing
from crawld.research.experiments import ncis as estimation
from crawld.research.experiments import ncis as quality
from crawld.research.experiments import papers as azar
from crawld.research.experiments import papers as cho
from crawld.research.experiments import papers as lambdacrawl
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
