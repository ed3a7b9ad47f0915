"""`python -m evolve` is the program `evolve`."""

import sys

from evolve.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
