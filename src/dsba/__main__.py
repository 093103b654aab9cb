"""``python -m dsba`` is the command line."""

from dsba.cli import main

main()
