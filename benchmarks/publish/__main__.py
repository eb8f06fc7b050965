"""`python -m benchmarks.publish`."""

from pathlib import Path

from benchmarks.publish.write import publish

if __name__ == "__main__":
    for path in publish(Path(__file__).resolve().parents[2]):
        print(f"{path} written")
