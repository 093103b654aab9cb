"""The road from rows to a model."""
