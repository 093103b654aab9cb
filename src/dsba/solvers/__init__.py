"""Solvers of monotone equations: linear systems, Newton's iteration, local problems, the certified optimum."""
