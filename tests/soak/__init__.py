"""The soak: mutated inputs for every reader, and runs that are killed and resumed. Run by `make soak`.

`readers.py` is the registry: a reader that is added there is soaked, and 1 % of it runs in `make test`.
"""
