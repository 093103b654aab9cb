"""Compiled kernels. They know arrays and an operator, nothing of people, clocks or errors."""
