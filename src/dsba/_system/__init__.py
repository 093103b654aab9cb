"""The machine: threads, memory, signals, values that are computed once."""
