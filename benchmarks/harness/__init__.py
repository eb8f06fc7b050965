"""What all benchmarks share: small cached tasks in worker processes, and a summary of their rows.

A benchmark lists its tasks and gives one function that runs a task; `command` does the rest.
"""

from benchmarks.harness.benchmark import Benchmark, Task
from benchmarks.harness.command import command
from benchmarks.harness.measure import Meter
from benchmarks.harness.summary import Bar, differences, values

__all__ = ["Bar", "Benchmark", "Meter", "Task", "command", "differences", "values"]
