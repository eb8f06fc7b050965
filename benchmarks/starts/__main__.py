"""`python -m benchmarks.starts`."""

import sys

from benchmarks.harness import command
from benchmarks.starts.benchmark import STARTS

if __name__ == "__main__":
    sys.exit(command(STARTS))
