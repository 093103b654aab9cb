"""Comparisons: data x problems x networks x methods, tuned, run side by side, and reported."""

from dsba.lab.paper import paper
from dsba.lab.results import ExperimentResults
from dsba.lab.runner import run
from dsba.lab.spec import Experiment

__all__ = ["Experiment", "ExperimentResults", "paper", "run"]
