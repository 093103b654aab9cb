"""The one loop: what people give, the run, its records, budgets, checkpoints and progress."""
