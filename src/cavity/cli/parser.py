"""The arguments of the command and the help that teaches them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import Any

SUMMARY = """\
Predict a number or a class from the columns of a table, and say how sure the prediction is.

cavity fits Bayesian neural networks with sparsity-promoting priors by expectation propagation: they find
curves and interactions, switch off inputs that do not matter, and give an interval with every prediction."""

START = """\
start here:
  cavity demo                                          see it work, in about a minute
  cavity fit houses.csv --target price                 fit; writes model.cavity
  cavity predict model.cavity new.csv --intervals      predict, with 95 % intervals
  cavity report model.cavity -o report.html            what matters, how well, what to worry about
  cavity evaluate houses.csv --target price            would it beat a linear model? (cross-validation)

tables:
  CSV (comma, semicolon or tab) or Parquet, plain or .gz .bz2 .xz .zip, from a file or from standard
  input, written as "-". The first line of a CSV file names the columns. Text columns become levels.

exit codes:
  0 done   1 a problem with the data or files   2 a problem with the command line
  3 fitted and saved, but far from converged   130 interrupted"""

FIT = """\
Fit a network to a table and save it.

Every column but the target is an input. Numbers are used as they are (there is no need to scale them),
true/false becomes 1/0, text becomes levels. Names, levels and fill values are saved in the model, so
`cavity predict` takes tables just as raw as this one.

A target of numbers is predicted as a number with its uncertainty (regression), one of text or true/false
as a class with probabilities (classification); --task says otherwise, say for classes written as 0 and 1."""

FIT_EXAMPLES = """\
examples:
  cavity fit houses.csv --target price
  cavity fit houses.csv.gz --target price --ignore id,date --impute --out houses.cavity
  cavity fit patients.csv --target outcome --task classification
  cavity fit survey.parquet --target income --weights copies --prior ard --hidden 8
  zcat big.csv.gz | cavity fit - --target y --time-limit 60 --json > summary.json

priors:
  laplace   a scale for each input, and many weights shrink to almost nothing (default for numbers; for
            classes several priors are fitted and stacked)
  ard       one scale per input: an input that does not matter is switched off as a whole
  gaussian  all input weights share one scale, none is singled out

noise:
  Numbers are fitted with one noise level first; wider tails, and noise that depends on the inputs, are
  taken up where they predict better. --likelihood and --noise decide it, for instance
  --likelihood poisson for counts, or --noise one to leave noise that varies untried.

convergence:
  A fit that stops before its tolerance says so and is as good as a converged one in most cases. Exit code
  3 means that the model was saved but a moment is off by more than half a standard deviation: raise
  --max-iter, try --starts 4, and look at `cavity report` before you trust it."""

PREDICT = """\
Predict with a saved model.

Columns are found by name, in any order; columns that the model does not know are ignored. The output is a
table with the row (counted from 1), the prediction and its standard deviation, noise included; of classes
the most probable one, and the probability of each."""

PREDICT_EXAMPLES = """\
examples:
  cavity predict model.cavity new.csv
  cavity predict model.cavity new.csv --intervals 0.8 --out predictions.csv
  cavity predict model.cavity new.csv --intervals --keep --out predictions.parquet
  cat new.csv | cavity predict model.cavity - --json"""

EVALUATE = """\
How well would a fit predict rows it has not seen? Cross-validation, beside a Bayesian linear model.

MLPD is the mean log predictive density of the held-out targets: higher is better, and both the predictions
and their uncertainty count. RMSE is the typical error in units of the target, R² the share of its variance
explained, and `in 95 %` the share of targets within their 95 % interval, which should be near 0.95.

For classes a tuned logistic regression stands beside the fit; the log score is the mean log probability of
what happened, `right` the share of rows whose most probable class it was."""

EVALUATE_EXAMPLES = """\
examples:
  cavity evaluate houses.csv --target price
  cavity evaluate houses.csv --target price --cv 5 --prior ard --jobs 2
  cavity evaluate houses.csv --target price --json > scores.json"""

REPORT = """\
One self-contained HTML page about a model: how well it predicts, how sure it is, what matters and how,
and what to worry about."""

INFO = "What a saved model is: its columns, its settings, how the fit ended, what matters."

DEMO = """\
Fit two problems and show what comes out: the additive problem of the paper's Case 2, where the truth is
known, and scikit-learn's diabetes data. Takes about a minute, needs no network, and writes report.html and
the figures."""


def parser() -> argparse.ArgumentParser:
    """The whole command line; ``arguments.run`` is the function of the chosen command."""
    version = import_module("cavity").__version__  # the package stands above this room
    top = argparse.ArgumentParser("cavity", description=SUMMARY, epilog=START, **_STYLE)
    top.add_argument("--version", action="version", version=f"cavity {version}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND")

    fit = _command(commands, "fit", "fit a network to a table and save it", FIT, FIT_EXAMPLES)
    fit.add_argument("data", metavar="DATA", help='table to learn from; "-" is standard input')
    _table_options(fit)
    _model_options(fit)
    fit.add_argument(
        "--out", "-o", default="model.cavity", metavar="FILE", help="the model (default: model.cavity)"
    )
    _output_options(fit)

    predict = _command(commands, "predict", "predict with a saved model", PREDICT, PREDICT_EXAMPLES)
    predict.add_argument("model", metavar="MODEL", help="a model that `cavity fit` saved")
    predict.add_argument("data", metavar="DATA", help='table to predict; "-" is standard input')
    predict.add_argument(
        "--intervals",
        nargs="?",
        type=level,
        const=0.95,
        metavar="LEVEL",
        help="add the bounds of central intervals, 0.95 unless LEVEL is given",
    )
    predict.add_argument(
        "--unseen",
        choices=["error", "ignore"],
        default="error",
        help="levels that the fit did not see: refuse (default), or count as unknown",
    )
    _missing_options(predict, "by default what the fit did")
    predict.add_argument("--keep", action="store_true", help="put the columns of DATA beside the predictions")
    predict.add_argument(
        "--out",
        "-o",
        metavar="FILE",
        help="write there instead: .csv, .csv.gz, .parquet or .json by its ending",
    )
    _reading_options(predict)
    _output_options(predict)

    evaluate = _command(commands, "evaluate", "cross-validate a fit", EVALUATE, EVALUATE_EXAMPLES)
    evaluate.add_argument("data", metavar="DATA", help='table to learn from; "-" is standard input')
    evaluate.add_argument(
        "--cv", type=at_least(2), default=10, metavar="N", help="number of folds (default: 10)"
    )
    _table_options(evaluate)
    _model_options(evaluate)
    _output_options(evaluate)

    report = _command(commands, "report", "write an HTML page about a model", REPORT)
    report.add_argument("model", metavar="MODEL", help="a model that `cavity fit` saved")
    report.add_argument(
        "--out", "-o", default="report.html", metavar="FILE", help="the page (default: report.html)"
    )
    report.add_argument(
        "--data", metavar="DATA", help="a table with the target, to score the model on besides"
    )
    report.add_argument("--title", help="heading of the page")
    _reading_options(report)
    _output_options(report, json=False)

    info = _command(commands, "info", "say what a saved model is", INFO)
    info.add_argument("model", metavar="MODEL", help="a model that `cavity fit` saved")
    _output_options(info)

    demo = _command(commands, "demo", "see it work on two problems", DEMO)
    demo.add_argument(
        "--out", "-o", default="demo", metavar="DIR", help="folder for the page and figures (default: demo)"
    )
    _output_options(demo, json=False)
    return top


def level(text: str) -> float:
    """A probability in (0, 1), also written in per cent."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no level; write 0.9 or 90%") from None
    value = value / 100.0 if value >= 1.0 else value
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is no level; it lies between 0 and 1, or 0% and 100%")
    return value


def prior_name(text: str) -> str:
    """A type for the names of priors."""
    from cavity.model.priors import PRIORS

    if text not in PRIORS:
        raise argparse.ArgumentTypeError(f"{text!r} is no prior; use one of {', '.join(PRIORS)}")
    return text


def at_least(smallest: int) -> Callable[[str], int]:
    """A type for whole numbers from ``smallest`` on."""

    def whole(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
        if value < smallest:
            raise argparse.ArgumentTypeError(f"{value} is too small; at least {smallest} is needed")
        return value

    return whole


def seconds(text: str) -> float:
    """A positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds") from None
    if not value > 0.0:
        raise argparse.ArgumentTypeError("the time limit must be positive")
    return value


_STYLE: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}


def _command(
    commands: Any, name: str, summary: str, text: str, examples: str = ""
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=text, epilog=examples, **_STYLE
    )

    def run(arguments: argparse.Namespace) -> int:
        # imported when run, so that --help and usage errors are quick
        return int(import_module(f"cavity.cli.{name}").run(arguments))

    command.set_defaults(run=run)
    return command


class _Names(argparse.Action):
    """Names separated by commas, in one option or several."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        names = [name.strip() for name in values.split(",") if name.strip()]
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), *names])


def _table_options(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("columns")
    group.add_argument("--target", required=True, metavar="COL", help="the column to predict")
    group.add_argument(
        "--task",
        choices=("regression", "classification"),
        help="what the target is (by default text and true/false are classes, anything else numbers)",
    )
    group.add_argument("--weights", metavar="COL", help="column of weights; weight 2 counts a row twice")
    group.add_argument(
        "--ignore", action=_Names, default=[], metavar="COL,…", help="columns to leave out, such as row names"
    )
    group.add_argument(
        "--categorical",
        action=_Names,
        default=[],
        metavar="COL,…",
        help="numbers that are codes, not quantities",
    )
    _missing_options(command, "by default refused, with a count per column")
    _reading_options(command)


def _missing_options(command: argparse.ArgumentParser, default: str) -> None:
    group = command.add_argument_group("missing inputs", default)
    either = group.add_mutually_exclusive_group()
    either.add_argument(
        "--impute",
        dest="missing_inputs",
        action="store_const",
        const="impute",
        help="fill with the median, or the most frequent level",
    )
    either.add_argument(
        "--drop-missing",
        dest="missing_inputs",
        action="store_const",
        const="drop",
        help="leave out such rows",
    )


def _reading_options(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("reading")
    group.add_argument(
        "--missing",
        action="append",
        default=[],
        metavar="TEXT",
        help="one more sign of a missing value, besides an empty cell, NA, NaN, null and None",
    )
    group.add_argument("--encoding", help="encoding of a CSV file (default: found out)")


def _model_options(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("model", "the defaults need no tuning")
    group.add_argument(
        "--prior",
        type=prior_name,
        metavar="NAME",
        help="prior of the input weights: laplace, ard, … (default: what suits the target)",
    )
    group.add_argument(
        "--likelihood",
        choices=("auto", "gaussian", "student-t", "outliers", "poisson"),
        help="how a target of numbers varies; poisson is for counts (default: auto, found by leave-one-out)",
    )
    group.add_argument(
        "--noise",
        choices=("auto", "one", "linear", "varying"),
        help="one noise level for all rows; or its logarithm is linear in the inputs; or varies with the "
        "function too, how large and how steep it is (default: auto, found by leave-one-out)",
    )
    group.add_argument(
        "--hidden", type=at_least(1), metavar="K", dest="n_hidden", help="number of hidden units"
    )
    group.add_argument(
        "--starts", type=at_least(1), metavar="M", dest="n_starts", help="fit M times and stack the results"
    )
    group.add_argument("--max-iter", type=at_least(1), metavar="N", help="most sweeps of the last stage")
    group.add_argument(
        "--time-limit", type=seconds, metavar="SECONDS", help="stop there and keep what is found"
    )
    group.add_argument(
        "--seed", type=at_least(0), default=0, metavar="N", help="of everything random (default: 0)"
    )
    group.add_argument("--jobs", type=int, metavar="N", help="processes, -1 for one per core (default: 1)")


def _output_options(command: argparse.ArgumentParser, json: bool = True) -> None:
    group = command.add_argument_group("output")
    if json:
        group.add_argument("--json", action="store_true", help="print JSON, for programs")
    group.add_argument(
        "--quiet", "-q", action="store_true", help="no progress, notes or summary; only errors"
    )
    group.add_argument("--traceback", action="store_true", help=argparse.SUPPRESS)
