"""The experiments, by name."""

from crawld.research.experiments import fleet, learning, ncis, objectives, papers
from crawld.research.trial import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for module in (papers, ncis, learning, objectives, fleet)
    for experiment in module.EXPERIMENTS
}
