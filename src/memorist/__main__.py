"""Run the command line as `python -m memorist`."""

from memorist.cli.app import main

main()
