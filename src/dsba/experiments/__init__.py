"""Comparisons: data x problems x networks x methods, tuned, run side by side, and reported."""

from dsba.experiments.paper import paper
from dsba.experiments.runner import run
from dsba.experiments.spec import Experiment
from dsba.report.results import Results

__all__ = ["Experiment", "Results", "paper", "run"]
