"""`python -m memorist` is the command line."""

from memorist.cli.app import main

main()
