"""Ready-made comparisons."""
