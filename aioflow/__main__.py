"""`python -m aioflow`."""

import sys

from aioflow.cli import main

if __name__ == "__main__":
    sys.exit(main())
