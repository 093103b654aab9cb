"""DSBA and DSA: one method, held and advanced in several forms."""
