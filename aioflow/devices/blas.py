"""How many threads BLAS uses, while a session wants it otherwise than its host has it.

It is one setting for the whole process: where several sessions are open, the smallest number that one of them asked for
holds, and the host's own number comes back with the last. Only NumPy's BLAS is meant, and not oneDNN, whose threads
belong to the thread that calls it.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from aioflow import errors

R = TypeVar("R")


class ThreadLimit:
    """What one session asked for, in force until `release`."""

    __slots__ = ("threads",)

    def __init__(self, threads: int) -> None:
        self.threads: Final = threads

    def release(self) -> None:
        """It is not asked for any more. May be called again."""
        _process.remove(self)


def limit_threads(threads: int) -> ThreadLimit:
    """Have BLAS use so many threads of the process, until the Limit is released.

    UnimplementedError if threadpoolctl is not installed, or if the BLAS that is loaded cannot be told so.
    """
    made = ThreadLimit(threads)
    _process.add(made)
    return made


class _ProcessSetting:
    """The setting, and who asked for it. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: list[ThreadLimit] = []
        self._before: Any = None  # threadpoolctl's limiter, which knows the host's numbers

    def add(self, wanted: ThreadLimit) -> None:
        with self._lock:
            libraries = _libraries()
            self._asked.append(wanted)
            try:
                _check(self._apply(libraries), libraries.info(), wanted.threads)
            except BaseException:
                self._remove(wanted)
                raise

    def remove(self, wanted: ThreadLimit) -> None:
        with self._lock:
            if wanted in self._asked:
                self._remove(wanted)

    def _remove(self, wanted: ThreadLimit) -> None:
        self._asked.remove(wanted)
        if self._asked:
            self._apply(_libraries())
        elif self._before is not None:
            before, self._before = self._before, None
            _run_on_new_thread(before.restore_original_limits)

    def _apply(self, libraries: Any) -> Any:
        """Set what is asked for; what threadpoolctl says of each library then, on the thread that set it."""
        threads = min(limit.threads for limit in self._asked)
        limiter, found = _run_on_new_thread(lambda: (libraries.limit(limits=threads), libraries.info()))
        self._before = self._before or limiter
        return found


def _check(there: Sequence[dict[str, Any]], here: Sequence[dict[str, Any]], threads: int) -> None:
    """UnimplementedError if a library did not obey on the thread that set it, or not on this one too."""
    for library, number in zip(there, [library["num_threads"] for library in here], strict=True):
        if number != library["num_threads"] or number > threads:
            raise errors.UnimplementedError(
                f"{library['internal_api']} at {library['filepath']} stays at {number} threads and cannot be told to "
                f"use {threads}: it keeps a number for each thread, or someone else in the process governs it; set "
                "OMP_NUM_THREADS before the process begins instead"
            )


def _libraries() -> Any:
    """What threadpoolctl knows of the BLAS libraries of the process."""
    try:
        # imported when it is asked for: it changes the environment
        import threadpoolctl
    except ImportError:
        raise errors.UnimplementedError("blas_threads needs threadpoolctl: pip install aioflow[blas]") from None
    libraries = threadpoolctl.ThreadpoolController().select(user_api="blas")
    if not libraries.info():
        raise errors.UnimplementedError(
            "blas_threads: the process uses no BLAS that threadpoolctl knows (OpenBLAS, MKL, BLIS or FlexiBLAS)"
        )
    return libraries


def _run_on_new_thread(function: Callable[[], R]) -> R:
    """Its result on a thread that ends with it.

    threadpoolctl obeys one thread of a process as long as that lives, and sessions may open and close on several. And
    whether what is set there is also said here shows whether it is a setting of the process.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="aioflow-blas") as thread:
        return thread.submit(function).result()


_process: Final = _ProcessSetting()
