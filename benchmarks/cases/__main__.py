"""`python -m benchmarks.cases`."""

import sys

from benchmarks.cases.benchmark import BENCHMARK
from benchmarks.harness import command

if __name__ == "__main__":
    sys.exit(command(BENCHMARK))
