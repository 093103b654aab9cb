"""A study: what sites agreed on, their keys, and the run that they join."""
