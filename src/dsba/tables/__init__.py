"""One model with standard errors from tables at several sites."""
