"""Puts one fault at a time into a copy of the package, and tells which of them the tests of their area find.

    python -m tests.mutants                    all faults of tests/data/mutants.toml
    python -m tests.mutants NAME ...           these alone
    AIOFLOW_LONG=1 python -m tests.mutants     by the long tests

Each fault is tried with the tests of its area, up to the first that fails. The exit status is 1 if one is not found.
"""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "data" / "mutants.toml"
COPIED = ("aioflow", "tests", "examples", "benchmarks", "pyproject.toml", "README.md", "CONTRIBUTING.md")
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile", "unshrunk")
FOUND, NOT_FOUND = 1, 0
"""The exit status of pytest: a test has failed, or all have passed."""
PATIENCE = 900
"""Seconds after which the tests count as hanging, by which a fault is found, too."""


class Mutant(NamedTuple):
    """A fault: `new` in the place of `old`, which is at one place of the file, and the tests that must find it."""

    name: str
    file: str
    old: str
    new: str
    tests: str

    def text(self, folder: Path) -> str:
        """The text of the file with the fault."""
        text = (folder / self.file).read_text()
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: {self.old!r} is {text.count(self.old)} times in {self.file}, and must be once"
            )
        return text.replace(self.old, self.new)


def mutants() -> list[Mutant]:
    return [Mutant(name, **fault) for name, fault in tomllib.loads(LIST.read_text()).items()]


def write(path: Path, text: str) -> None:
    """Write a module so that the next process compiles it anew, even within the same second."""
    path.write_text(text)
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def is_found(mutant: Mutant, folder: Path) -> bool:
    path = folder / mutant.file
    whole = path.read_text()
    write(path, mutant.text(folder))
    try:
        return fails(mutant.tests, folder)
    finally:
        write(path, whole)


def fails(tests: str, folder: Path) -> bool:
    """Whether one of the tests fails, or none ends."""
    command = [sys.executable, "-m", "pytest", *OPTIONS, *shlex.split(tests)]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return True
    if done.returncode not in (FOUND, NOT_FOUND):
        raise RuntimeError(f"{tests}: pytest ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.returncode == FOUND


def copied(folder: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)


def main(names: list[str]) -> int:
    chosen = [mutant for mutant in mutants() if not names or mutant.name in names]
    missed = []
    with tempfile.TemporaryDirectory(prefix="aioflow-mutants-") as folder:
        copied(Path(folder))
        broken = [tests for tests in dict.fromkeys(mutant.tests for mutant in chosen) if fails(tests, Path(folder))]
        if broken:
            raise RuntimeError(f"these tests fail without any fault: {broken}")
        for mutant in chosen:
            began = time.monotonic()
            found = is_found(mutant, Path(folder))
            missed += [] if found else [mutant.name]
            print(f"{'found' if found else 'MISSED':7} {time.monotonic() - began:5.0f} s  {mutant.name}", flush=True)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} faults are found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
