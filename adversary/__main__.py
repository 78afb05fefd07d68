"""`python -m adversary`: the command line."""

from adversary.report.commands.cli import main

if __name__ == "__main__":
    main()
