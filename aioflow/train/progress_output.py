"""Where progress is shown: in one line of a terminal, in one output of a notebook, or as lines of a log."""

import contextlib
import logging
import os
import shutil
from typing import Final, TextIO

from aioflow.notebook.live import LiveOutput
from aioflow.notebook.progress import EpochTable, ProgressLine

_log: Final = logging.getLogger("aioflow.train")
_ANEW: Final = "\r\x1b[K"
"""Moves to the beginning of the line and clears it."""


class ProgressOutput:
    """Shows one view of progress after another. If writing fails, as when the reader has gone, it shows nothing more.

    Args:
        stream: the stream to write to; None for none.
        redraws: whether a view takes the place of the one before; by default in a terminal.
        live: the output of a notebook's cell, which takes the place of the stream for views.

    Attributes:
        replaces: whether views take the place of those before.
    """

    def __init__(self, stream: TextIO | None, redraws: bool | None = None, live: LiveOutput | None = None) -> None:
        self._stream: TextIO | None = stream
        self._redraws: Final = stream is not None and (self._is_terminal if redraws is None else redraws)
        self._live: Final = live
        self._shown: ProgressLine | EpochTable | None = None
        self.replaces: Final = self._redraws or live is not None

    def show(self, view: ProgressLine | EpochTable) -> None:
        """Show the view, unless it is shown already."""
        if view == self._shown:
            return
        if self._live is not None:
            self._live.show(view)
        else:
            self._write(_ANEW + view.drawn[: self._width] if self._redraws else f"{view.line}\n")
        self._shown = view

    def keep(self, text: str) -> None:
        """Write a line that stays, in place of the view."""
        self._write(f"{_ANEW if self._redraws else ''}{text}\n")
        self._shown = None

    def end(self) -> None:
        """Let the view stay, and end its line."""
        if self._redraws and self._live is None and self._shown is not None:
            self._write("\n")
        self._shown = None

    @property
    def _width(self) -> int | None:
        """The usable width of the terminal; None if the stream is none."""
        if self._stream is None or not self._is_terminal:
            return None
        with contextlib.suppress(AttributeError, OSError, ValueError):  # the stream is not a file
            if columns := os.get_terminal_size(self._stream.fileno()).columns:
                return columns - 1
        return shutil.get_terminal_size().columns - 1

    @property
    def _is_terminal(self) -> bool:
        with contextlib.suppress(ValueError):  # the stream is closed
            return self._stream is not None and self._stream.isatty()
        return False

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError) as error:  # the reader has gone, or the stream is closed
            self._stream = None
            _log.warning("progress is not shown any more: %s", error)
