"""What type checkers see of aioflow: a program without an error, calls that they refuse, and how much has a type."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.typed import program

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COMMANDS = {
    "mypy": ["mypy", "--strict", "--no-error-summary", "--hide-error-context"],
    "basedpyright": ["basedpyright", "--level", "error"],
}

pytestmark = pytest.mark.slow


def output(*command):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, cwd=ROOT, env=environment)
    return run.stdout + run.stderr


def wrong_lines(text, file):
    """The lines of the file that the checker has an error for."""
    return {int(line) for line in re.findall(rf"{file.name}:(\d+).*error", text)}


def marked_lines(file):
    return {number for number, line in enumerate(file.read_text().splitlines(), 1) if line.endswith("# wrong")}


@pytest.mark.parametrize("checker", ["mypy", pytest.param("basedpyright", marks=pytest.mark.long)])
def test_a_checker_accepts_the_program_and_refuses_each_wrong_call(checker):
    good, bad = HERE / "program.py", HERE / "wrong_calls.py"
    text = output(*COMMANDS[checker], str(good), str(bad))
    assert wrong_lines(text, good) == set(), text
    assert wrong_lines(text, bad) == marked_lines(bad), text


async def test_the_program_runs_and_learns():
    assert await program.main() > 0


@pytest.mark.long
def test_nearly_everything_public_has_a_type():
    text = output("basedpyright", "--verifytypes", "aioflow", "--ignoreexternal", "--outputjson")
    assert json.loads(text)["typeCompleteness"]["completenessScore"] >= 0.95
