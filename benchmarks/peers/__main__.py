"""`python -m benchmarks.peers`."""

import sys

from benchmarks.harness import command
from benchmarks.peers.benchmark import PEERS

if __name__ == "__main__":
    sys.exit(command(PEERS))
