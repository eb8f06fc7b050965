"""`python -m benchmarks.accuracy`."""

import sys

from benchmarks.accuracy.benchmark import ACCURACY
from benchmarks.harness import command

if __name__ == "__main__":
    sys.exit(command(ACCURACY))
