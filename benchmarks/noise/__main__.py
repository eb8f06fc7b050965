"""`python -m benchmarks.noise`."""

import sys

from benchmarks.harness import command
from benchmarks.noise.benchmark import NOISE

if __name__ == "__main__":
    sys.exit(command(NOISE))
