"""A run in a file: the messages of a monitor, one a line, from which a page is filled later.

    async with af.dashboard.record(session, "run.json"):
        ...                                                  # training, say
    async with af.dashboard.serve(af.dashboard.replay("run.json")) as page:
        ...

The first line is the `Subject`. A line that was cut off, as by a crash, ends the recording: the log says so.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final, TextIO

from aioflow import errors
from aioflow.dashboard.messages import GraphSummary, Message, Step, StepSummary, Subject, from_json, to_json
from aioflow.dashboard.messages.consistency import check
from aioflow.dashboard.monitor import Monitor
from aioflow.dashboard.watched import monitor_of

_WRITE_EVERY: Final = 1.0
_STEP_EVERY: Final = 10.0
"""Seconds from one traced step to the next: they are large."""
_LONGEST: Final = 1 << 26
"""Characters of a line, at most."""
_log: Final = logging.getLogger("aioflow.dashboard")


@contextlib.asynccontextmanager
async def record(
    watched: Any, path: str | os.PathLike[str], clock: Callable[[], float] = time.time
) -> AsyncIterator[None]:
    """Write what a live page would show to a file, while the block runs. It takes the place of an open page.

    Args:
        watched: an `af.Session`, `af.train.Server` or `af.serving.Models`; it stays the caller's.
        path: the file, which is replaced.
        clock: the time of day.

    Examples:
        >>> async with af.dashboard.record(session, "run.json"):
        ...     _ = await session.run(af.constant(1) + 1)
        >>> af.gfile.Exists("run.json")
        True
    """
    monitor = monitor_of(watched, clock)
    recorder = _Recorder(await asyncio.to_thread(open, path, "w", encoding="utf-8"))
    try:
        with monitor.viewer() as board:
            for message in board.everything():
                recorder.take(message)
            stop = board.listen(recorder.take)
            writing = asyncio.get_running_loop().create_task(recorder.write_on(), name="records a run")
            try:
                yield
            finally:
                stop()
                writing.cancel()
                await asyncio.wait([writing])
                await recorder.close()
    finally:
        await monitor.close()


class _Recorder:
    """Gathers messages, and writes them on a thread once a second."""

    def __init__(self, file: TextIO) -> None:
        self._file: Final = file
        self._waiting: list[Message] = []
        self._next_step = float("-inf")

    def take(self, message: Message) -> None:
        """Keep the message, unless it repeats another one, or is a traced step soon after the last."""
        if isinstance(message, (StepSummary, GraphSummary)):
            return
        if isinstance(message, Step):
            if message.time < self._next_step:
                return
            self._next_step = message.time + _STEP_EVERY
        self._waiting.append(message)

    async def write_on(self) -> None:
        """Write until it is cancelled."""
        while True:
            await asyncio.sleep(_WRITE_EVERY)
            await asyncio.shield(asyncio.to_thread(self._write, self._taken()))

    def _taken(self) -> list[Message]:
        found, self._waiting = self._waiting, []
        return found

    def _write(self, messages: list[Message]) -> None:
        self._file.writelines([f"{to_json(message)}\n" for message in messages])
        self._file.flush()

    async def close(self) -> None:
        """Write the messages that are left, and close the file."""
        await asyncio.to_thread(self._end, self._taken())

    def _end(self, messages: list[Message]) -> None:
        with self._file:
            self._write(messages)


def replay(path: str | os.PathLike[str]) -> Monitor:
    """Return a monitor that shows a recorded run; `serve` and `aiohttp_app` take it. Blocks while it reads.

    Raises:
        NotFoundError: there is no such file.
        DataLossError: it is no recording, or parts of it contradict each other.

    Examples:
        >>> async with af.dashboard.record(session, "run.json"):
        ...     _ = await session.run(af.constant(1) + 1)
        >>> async with af.dashboard.serve(af.dashboard.replay("run.json")) as page:
        ...     print(page.url.startswith("http://127.0.0.1:"))
        True
    """
    messages = read_recording(path)
    subject = next(messages, None)
    if not isinstance(subject, Subject):
        raise errors.DataLossError(f"{os.fspath(path)} is no recording of a run: it does not begin with its subject")
    monitor = Monitor(subject.title, subject.what, (), subject.pages)
    monitor.board.post(subject)
    for message in messages:
        monitor.board.post(message)
    return monitor


def read_recording(path: str | os.PathLike[str]) -> Iterator[Message]:
    """The messages of a recording. Raises as `replay` does."""
    where = os.fspath(path)
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            yield from _messages(file, where)
    except OSError as error:
        raise errors.NotFoundError(f"the recording {where} cannot be read: {error.strerror}") from None


def _messages(file: TextIO, where: str) -> Iterator[Message]:
    for number in itertools.count(1):
        line = file.readline(_LONGEST)
        if not line.endswith("\n"):
            if line:
                _log.warning("%s ends within line %d: its program was killed, or the file was cut off", where, number)
            return
        yield _message(line, f"{where}, line {number}")


def _message(line: str, where: str) -> Message:
    try:
        message = from_json(line)
        check(message)
    except ValueError as error:
        raise errors.DataLossError(f"{where}: {error}") from None
    return message
