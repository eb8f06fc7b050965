"""`python -m benchmarks.structures`."""

import sys

from benchmarks.harness import command
from benchmarks.structures.benchmark import STRUCTURES

if __name__ == "__main__":
    sys.exit(command(STRUCTURES))
