"""``cavity fit``: a table in, a model file out."""

from __future__ import annotations

import argparse
import sys
import time

from cavity.cli import FAR_FROM_CONVERGED, INTERRUPTED, OK
from cavity.cli.console import Console
from cavity.cli.models import Training, build, check_writable, described_fit, fit, mismatch
from cavity.estimators.base import LARGE_MISMATCH


def run(arguments: argparse.Namespace) -> int:
    """Fit, save, and say what came out; 3 where it is far from converged."""
    console = Console(arguments.quiet, arguments.json)
    check_writable(arguments.out)
    training = Training(arguments, console)
    started = time.perf_counter()
    model = build(arguments, training.encoder, n_jobs=arguments.jobs)
    undisturbed = fit(model, training.X, training.y, training.weight, console, "Fitting")
    elapsed = time.perf_counter() - started
    model.save(arguments.out, extra=training.extra)
    model.target_name_, model.table_rows_ = arguments.target, training.rows
    numbers, lines = described_fit(model, training.encoder)
    console.deliver(
        {
            "model": arguments.out,
            "data": training.table.name,
            "target": arguments.target,
            "n_rows": len(training.y),
            "inputs": training.encoder.features,
            "notes": training.notes,
            "seconds": round(elapsed, 3),
            **numbers,
        }
    )
    console.show("", *lines, "")
    more = "" if training.classes else " --intervals"
    console.say(
        f"Saved to {arguments.out}. Next: cavity predict {arguments.out} NEW.csv{more}, "
        f"or cavity report {arguments.out}."
    )
    if not undisturbed:
        print("cavity: interrupted; what was found by then is saved.", file=sys.stderr)
        return INTERRUPTED
    if mismatch(model) > LARGE_MISMATCH:
        print(f"cavity: far from converged ({mismatch(model):.2g} sds). {model.status_}", file=sys.stderr)
        return FAR_FROM_CONVERGED
    return OK
