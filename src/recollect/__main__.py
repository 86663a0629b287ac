"""`python -m recollect` is the command line."""

from recollect.cli.app import main

main()
