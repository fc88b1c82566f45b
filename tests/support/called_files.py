"""The files of the package whose functions a block of code calls."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import aioflow

PACKAGE = str(Path(aioflow.__file__).parent)


@contextlib.contextmanager
def called_files() -> Iterator[set[str]]:
    """Collect, by name inside the package, the files whose functions are called on this thread inside the block.

    Files of `aioflow.testing` do not count: they stand for the network and the clock.
    """
    files: set[str] = set()

    def seen(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(PACKAGE):
            files.add(name[len(PACKAGE) + 1 :])

    sys.setprofile(seen)
    try:
        yield files
    finally:
        sys.setprofile(None)
        files -= {name for name in files if name.startswith("testing")}
