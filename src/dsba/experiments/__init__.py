"""Comparisons: data x problems x networks x methods, tuned, run side by side, and reported."""

from dsba.experiments.paper import paper
from dsba.experiments.results import Results
from dsba.experiments.runner import run
from dsba.experiments.spec import Experiment

__all__ = ["Experiment", "Results", "paper", "run"]
