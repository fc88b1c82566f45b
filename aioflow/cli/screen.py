"""A terminal that a command paints again and again, and the key that ends it."""

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TextIO

from aioflow.cli.tables import Part, drawn

_ENTER: Final = "\x1b[?1049h\x1b[?25l"
"""Shows the other screen of the terminal, without a cursor."""
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_KEYS: Final = 100
"""Pressed keys that are read at once."""
_HOME, _END_OF_LINE, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class Screen:
    """The whole terminal inside the block; the earlier content comes back afterwards.

    Args:
        file: the terminal.
    """

    def __init__(self, file: TextIO) -> None:
        self._file: Final = file

    def __enter__(self) -> "Screen":
        self._write(_ENTER)
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):
            self._write(_LEAVE)

    def paint(self, parts: Sequence[Part]) -> None:
        """Show the parts from the top; lines below the lower edge are left out."""
        width, height = shutil.get_terminal_size()
        lines = drawn(parts, width - 1, colour=True)
        if len(lines) > height:
            lines = [*lines[: height - 1], f"and {len(lines) - height + 1} further lines"]
        self._write(_HOME + "\n".join([line + _END_OF_LINE for line in lines]) + _BELOW)

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()


@contextlib.contextmanager
def pressed_key(key: str, then: Callable[[], object]) -> Iterator[None]:
    """Inside, a pressed key calls a function. Does nothing where the input is no terminal, as in a pipe."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    source = sys.stdin.fileno()
    before = termios.tcgetattr(source)
    loop = asyncio.get_running_loop()

    def read() -> None:
        if key.encode() in os.read(source, _KEYS):
            then()

    tty.setcbreak(source)
    loop.add_reader(source, read)
    try:
        yield
    finally:
        loop.remove_reader(source)
        termios.tcsetattr(source, termios.TCSADRAIN, before)
