"""Table 1 of the paper: its methods and ours on its sets, its numbers beside them: `make bench-table1`."""
