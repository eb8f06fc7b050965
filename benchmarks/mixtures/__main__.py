"""`python -m benchmarks.mixtures`."""

import sys

from benchmarks.harness import command
from benchmarks.mixtures.benchmark import MIXTURES

if __name__ == "__main__":
    sys.exit(command(MIXTURES))
