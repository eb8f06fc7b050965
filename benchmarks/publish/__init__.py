"""From the summaries in benchmarks/results to docs/benchmarks.md and the table of the README."""
