"""`aioflow worker` in a process that is forked from one that has imported it.

A new interpreter takes more than a second of the CPU to import what a worker needs, and a fork none of it. Tests of the
command itself start interpreters: they are in `tests/cli`.
"""

import multiprocessing
import os
import warnings
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self

from aioflow.cli import main
from aioflow.graph.op import REGISTRY

REGISTRY.complete()  # as a worker does when it starts
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["aioflow.net.server", "tests.support.forked_worker"])


class ForkedWorker:
    """The process of a worker, with the part of the interface of `subprocess.Popen` that the tests use.

    Attributes:
        stdout: what it prints, by lines.
    """

    def __init__(self, arguments: Sequence[str], *, stderr: Path, folder: Path, environment: Mapping[str, str]) -> None:
        """Start it. Its errors are appended to the file `stderr`, and warnings are errors."""
        reader, writer = _CONTEXT.Pipe(duplex=False)
        with reader, writer:
            self._process = _CONTEXT.Process(
                target=_work, args=(list(arguments), writer, stderr, folder, dict(environment))
            )
            self._process.start()
            self.stdout = os.fdopen(os.dup(reader.fileno()))

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit status; None while it lives."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        """Return its exit status when it has ended; None if it lives after so many seconds."""
        self._process.join(timeout)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it lives."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.join()
        self._process.close()
        self.stdout.close()


def _work(arguments: list[str], stdout: Connection, stderr: Path, folder: Path, environment: dict[str, str]) -> None:
    with stdout, open(stderr, "ab") as errors:
        os.dup2(stdout.fileno(), 1)
        os.dup2(errors.fileno(), 2)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    warnings.simplefilter("error")
    raise SystemExit(main(arguments))
