"""`python -m benchmarks.table1`."""

import sys

from benchmarks.table1.publish import main

if __name__ == "__main__":
    sys.exit(main())
