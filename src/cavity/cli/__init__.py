"""The ``cavity`` command: fit, predict, evaluate, report, info, demo.

Results go to standard output, everything said on the way to standard error. Exit codes: 0 done, 1 a
problem with the data or files (one sentence on standard error), 2 the command line is wrong, 3 fitted and
saved but far from converged, 130 interrupted.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence

from cavity.cli.parser import parser

OK, BAD_INPUT, USAGE, FAR_FROM_CONVERGED, INTERRUPTED = 0, 1, 2, 3, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the name of the program; those of the process by default.

    Returns
    -------
    int
        0 done, 1 bad input, 2 wrong usage, 3 fitted but far from converged, 130 interrupted.
    """
    commands = parser()
    arguments = commands.parse_args(argv)
    if not hasattr(arguments, "run"):
        commands.print_help(sys.stderr)
        return USAGE
    log = logging.getLogger("cavity")
    level = log.level
    if arguments.quiet:
        log.setLevel(logging.ERROR)
    try:
        code = int(arguments.run(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader of the pipe has seen enough (`cavity predict … | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        print("cavity: interrupted.", file=sys.stderr)
        return INTERRUPTED
    except (ValueError, OSError, ImportError, MemoryError) as error:
        if arguments.traceback:
            raise
        print(f"cavity: {_sentence(error)}", file=sys.stderr)
        return BAD_INPUT
    finally:
        log.setLevel(level)
    return code


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    text = " ".join(str(error).split())
    return text or f"{type(error).__name__} without a message; --traceback shows where."
