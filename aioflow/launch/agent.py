"""The agent: lives in a worker of the engine, and has one task of the cluster as a process of its own beside it.

A task is not a thread of the engine's worker, for a kernel that is busy in C code would keep that from answering the
engine, which would take it for dead. It cannot outlive the worker: it ends when its standard input does, however that
comes about. What it is told, the token too, comes by that input, never by arguments or variables, which others could
read.
"""

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, Final

from aioflow.launch.order import Order

STARTING: Final = 60.0
STOPPING: Final = 10.0
"""Seconds that a task has to come up, and to stop."""
WATCHING: Final = 2.0
"""Seconds after which who watches a task has to ask again, so that nothing holds an agent that was let go."""


class Agent:
    """One task. Its methods return what went wrong as text, empty if nothing did: an engine may not know our errors."""

    _process: asyncio.subprocess.Process | None = None  # here, for engines make classes of their own of this one

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        """Of these variables of the environment, those that are not set have these values for the task."""
        self._environment: Final = None if variables is None else {**variables, **os.environ}

    async def reserve(self, host: str, port: int = 0) -> str:
        """Start the task's process, which reserves a port of the host: `port` if it is free, else any.

        Returns the address, or `!` and the reason for failing.
        """
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "aioflow.launch.child",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            env=self._environment,
            start_new_session=True,  # a Ctrl-C is for who launched it
        )  # fmt: skip
        return await self._asked({"host": host, "port": port})

    async def start(self, order: Order) -> str:
        """The task listens. Returns `!` and the cause if it does not."""
        return await self._asked(dataclasses.asdict(order))

    async def move(self, cluster: Mapping[str, Any], version: int) -> str:
        """Send the new addresses of restarted tasks to this task, unless it has ended."""
        process = self._process
        if process is not None and process.stdin is not None and process.returncode is None:
            process.stdin.write(json.dumps({"cluster": cluster, "version": version}).encode() + b"\n")
        return ""

    async def status(self) -> str:
        """The exit status of the task's process, negative for a signal; empty while it runs."""
        code = None if self._process is None else self._process.returncode
        return "" if code is None else str(code)

    async def _asked(self, message: dict[str, Any]) -> str:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(message).encode() + b"\n")
        try:
            async with asyncio.timeout(STARTING):
                answer = await process.stdout.readline()
                return answer.decode().strip() or f"!it ended: {_status(await process.wait())}"
        except TimeoutError:
            return f"!it did not answer within {STARTING:g} s"

    async def watch(self) -> str:
        """Return how the task has ended, or nothing if it goes on for some seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WATCHING):
                if self._process is not None:
                    return _status(await self._process.wait())
        return ""

    async def stop(self) -> str:
        """The task has ended, by itself, or else killed, of which the answer tells."""
        process = self._process
        if process is None or process.returncode is not None:
            return ""
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(STOPPING):
                await process.wait()
                return ""
        except TimeoutError:
            process.kill()
            await process.wait()
            return f"it did not stop within {STOPPING:g} s and was killed"

    def __del__(self) -> None:
        """Nobody wants it any more: who launched it is gone."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()


def _status(code: int) -> str:
    if code >= 0:
        return f"its process ended with status {code}"
    with contextlib.suppress(ValueError):
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process was ended by signal {-code}"
