"""The agent, which lives in a worker of the engine and runs one task of the cluster as its child process.

A task is not a thread of the engine's worker: a kernel busy in C code would stop the worker from answering the engine,
which would consider it dead. The task cannot outlive the worker, because it ends when its standard input does. The
agent sends everything, the token too, by that input, never by arguments or variables, which other users could read.
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

from aioflow.config import Config

STARTING: Final = 60.0
STOPPING: Final = 10.0
"""Seconds that a task may take to start, and to stop."""
WATCHING: Final = 2.0
"""Seconds after which a watching launcher must ask again, so that a pending call never keeps an unused agent alive."""


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """One task of a cluster to serve.

    Attributes:
        cluster: addresses of all tasks by job.
        job: the name of its job.
        index: its number.
        settings: the fields in which its `Config` differs from the default.
        token: the credential of the tasks and the session.
        py_funcs: the module whose functions `af.py_func` may name; None for no functions.
        version: the version of the addresses in `cluster`.
    """

    cluster: Mapping[str, Any]
    job: str
    index: int
    settings: Mapping[str, Any]
    token: str = dataclasses.field(repr=False)
    py_funcs: str | None = None
    version: int = 0


def changed_settings(config: Config) -> dict[str, Any]:
    """Return the fields that differ from a `Config()`. TypeError if a value cannot be sent to other processes."""
    default = Config()
    names = [field.name for field in dataclasses.fields(Config)]
    stated = {
        name: _paths_to_text(getattr(config, name)) for name in names if getattr(config, name) != getattr(default, name)
    }
    for name, value in stated.items():
        if not _is_plain(value):
            raise TypeError(f"config: {name} cannot be sent to tasks on other machines")
    return stated


def _paths_to_text(value: Any) -> Any:
    """Convert paths to texts."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_paths_to_text, value))
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(each) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


class Agent:
    """One task. The methods return failures as text, empty for success, since an engine may not know our errors."""

    _process: asyncio.subprocess.Process | None = None  # set on the class, since engines derive classes from this one

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        """Set these variables for the task, except those that the environment has already."""
        self._environment: Final = None if variables is None else {**variables, **os.environ}

    async def reserve(self, host: str, port: int = 0) -> str:
        """Start the task's process, which reserves a port of the host: `port` if it is free, else any.

        A former process that still runs, because it was too slow to start, is stopped. Returns the address, or `!` and
        the reason for failing.
        """
        await self.stop()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "aioflow.launch.child",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            env=self._environment,
            start_new_session=True,  # Ctrl-C is for the launcher
        )  # fmt: skip
        return await self._ask({"host": host, "port": port})

    async def start(self, order: Order) -> str:
        """Start serving the task. Returns `!` and the cause if it fails."""
        return await self._ask(dataclasses.asdict(order))

    async def move(self, cluster: Mapping[str, Any], version: int) -> str:
        """Send the new addresses of restarted tasks to this task, unless it has ended."""
        process = self._process
        if process is not None and process.stdin is not None and process.returncode is None:
            process.stdin.write(json.dumps({"cluster": cluster, "version": version}).encode() + b"\n")
        return ""

    async def status(self) -> str:
        """Return the exit status of the task's process, negative for a signal; empty while it runs."""
        code = None if self._process is None else self._process.returncode
        return "" if code is None else str(code)

    async def _ask(self, message: dict[str, Any]) -> str:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(message).encode() + b"\n")
        try:
            async with asyncio.timeout(STARTING):
                answer = await process.stdout.readline()
                return answer.decode().strip() or f"!its process has ended: {_status(await process.wait())}"
        except TimeoutError:
            return f"!it did not answer within {STARTING:g} s"

    async def watch(self) -> str:
        """Return how the task has ended, or an empty text if it still runs after some seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WATCHING):
                if self._process is not None:
                    return _status(await self._process.wait())
        return ""

    async def stop(self) -> str:
        """Stop the task, or kill it if it does not stop in time; the answer says so. Cancelling kills it at once."""
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
            pass
        finally:
            if process.returncode is None:
                process.kill()
        await process.wait()
        return f"it did not stop within {STOPPING:g} s and was killed"

    def __del__(self) -> None:
        """Kill the task, since its launcher is gone."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()


def _status(code: int) -> str:
    if code >= 0:
        return f"its process ended with status {code}"
    with contextlib.suppress(ValueError):
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process was ended by signal {-code}"
