"""Benchmarks: ``make bench``. Every figure is a ratio, or a budget, measured in one run."""
