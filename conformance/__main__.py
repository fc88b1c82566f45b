"""Runs ONNX's own tests by aioflow and by ONNX Runtime, and prints the scores side by side.

    make onnx                   # all suites
    make onnx TESTS=test_lstm   # tests whose name matches a regular expression

`exceptions.toml` lists the tests that aioflow does not pass, each under its reason. The list may only shrink: a listed
test that passes, and one that fails without being listed, make the run fail.
"""

import argparse
import fnmatch
import re
import signal
import sys
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from onnx.backend.test import BackendTest

from conformance.backends import AioflowBackend, Backend, PeerBackend

EXCEPTIONS: Final = Path(__file__).with_name("exceptions.toml")
LIMIT: Final = 300
"""Seconds for one test: only one that hangs needs more."""
SUITES: Final = {
    "Node": "operators", "Expanded": "operators, as functions", "Simple": "small models", "Real": "real networks",
    "PyTorchConverted": "PyTorch, converted", "PyTorchOperator": "PyTorch, operators",
}  # fmt: skip

Results = dict[tuple[str, str], str | None]
"""{(suite, test): the error, or None for a test that passes}"""


def main() -> int:
    """Run the tests; the number of failures that `exceptions.toml` does not explain is the exit status."""
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    parser.add_argument("tests", nargs="?", default="", help="a regular expression for names of tests")
    pattern = re.compile(parser.parse_args().tests)
    warnings.simplefilter("ignore")
    mine, theirs = results(AioflowBackend, pattern), results(PeerBackend, pattern)
    print_scores(mine, theirs)
    complaints = [*unexplained(mine, exceptions())]
    print(*complaints, sep="\n")
    return min(len(complaints), 1)


def results(backend: type[Backend], pattern: re.Pattern[str]) -> Results:
    """The results of all tests whose name matches."""
    found: Results = {}
    for category, items in BackendTest(backend, __name__)._test_items.items():
        for name, item in items.items():
            test = name.removesuffix("_cpu")
            if test != name and pattern.search(test):
                suite = "Expanded" if "_expanded" in test else category.removesuffix("Model")
                found[suite, test] = error_of(item.func)
    return found


def error_of(test: Any) -> str | None:
    """The error of a test in one line; None if it passes."""
    signal.alarm(LIMIT)
    try:
        test(None)
    except Exception as error:
        return f"{type(error).__name__}: {error}".strip().replace("\n", " ")[:200]
    finally:
        signal.alarm(0)
    return None


def print_scores(mine: Results, theirs: Results) -> None:
    """Print how many tests of each suite pass."""
    whole = Counter(suite for suite, _ in mine)
    passes = [Counter(suite for (suite, _), error in each.items() if error is None) for each in (mine, theirs)]
    print("| suite | tests | aioflow | ONNX Runtime |\n|---|---|---|---|")
    for suite, title in SUITES.items():
        if whole[suite]:
            print(f"| {title} | {whole[suite]} | {passes[0][suite]} | {passes[1][suite]} |")


def exceptions() -> Mapping[str, bool]:
    """The patterns of names in the list of exceptions, and for each whether such a test may pass by chance."""
    groups = tomllib.loads(EXCEPTIONS.read_text())["exception"]
    return {pattern: group.get("chance", False) for group in groups for pattern in group["tests"]}


def unexplained(mine: Results, patterns: Mapping[str, bool]) -> Iterator[str]:
    """What the list of exceptions does not say, or says wrongly."""
    for (suite, test), error in mine.items():
        listed = [pattern for pattern in patterns if fnmatch.fnmatchcase(test, pattern)]
        if error is not None and not listed:
            yield f"{suite} {test} fails: {error}"
        if error is None and not all(patterns[pattern] for pattern in listed):
            yield f"{suite} {test} passes: take it out of {EXCEPTIONS.name}"


if __name__ == "__main__":
    sys.exit(main())
