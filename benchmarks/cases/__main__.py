"""`python -m benchmarks.cases`."""

import sys

from benchmarks.cases.publish import main

if __name__ == "__main__":
    sys.exit(main())
