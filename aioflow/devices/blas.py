"""Limits the number of threads of NumPy's BLAS while sessions request it.

The setting holds for the whole process: of several open sessions the smallest requested number counts, and the last
session to close restores the original number. oneDNN is not affected, since its threads belong to the calling thread.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from aioflow import errors

R = TypeVar("R")


class ThreadLimit:
    """The request of one session, in force until `release`."""

    __slots__ = ("threads",)

    def __init__(self, threads: int) -> None:
        self.threads: Final = threads

    def release(self) -> None:
        """Withdraw the request. Further calls do nothing."""
        _process.remove(self)


def limit_threads(threads: int) -> ThreadLimit:
    """Limit BLAS to `threads` threads until the ThreadLimit is released.

    UnimplementedError if threadpoolctl is not installed, or if the loaded BLAS cannot be limited.
    """
    made = ThreadLimit(threads)
    _process.add(made)
    return made


class _ProcessSetting:
    """The setting of the process and the requests for it. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: list[ThreadLimit] = []
        self._before: Any = None  # threadpoolctl's limiter, which keeps the original numbers

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
        """Apply the smallest request.

        Returns what threadpoolctl then reports of each library on the thread that set it.
        """
        threads = min(limit.threads for limit in self._asked)
        limiter, found = _run_on_new_thread(lambda: (libraries.limit(limits=threads), libraries.info()))
        self._before = self._before or limiter
        return found


def _check(there: Sequence[dict[str, Any]], here: Sequence[dict[str, Any]], threads: int) -> None:
    """Raise UnimplementedError if a library has another number of threads, on the thread that set it or on this one."""
    for library, number in zip(there, [library["num_threads"] for library in here], strict=True):
        if number != library["num_threads"] or number > threads:
            raise errors.UnimplementedError(
                f"{library['internal_api']} at {library['filepath']} stays at {number} threads and cannot be limited "
                f"to {threads}: it has a number for each thread, or other code sets it; set "
                "OMP_NUM_THREADS before the process starts instead"
            )


def _libraries() -> Any:
    """Return threadpoolctl's controller of the BLAS libraries of the process."""
    try:
        # imported late, because it changes the environment
        import threadpoolctl
    except ImportError:
        raise errors.UnimplementedError("blas_threads needs threadpoolctl: pip install aioflow-engine[blas]") from None
    libraries = threadpoolctl.ThreadpoolController().select(user_api="blas")
    if not libraries.info():
        raise errors.UnimplementedError(
            "blas_threads: the process uses no BLAS that threadpoolctl knows (OpenBLAS, MKL, BLIS or FlexiBLAS)"
        )
    return libraries


def _run_on_new_thread(function: Callable[[], R]) -> R:
    """Call `function` on a new thread and return its result.

    threadpoolctl obeys one thread of a process for the life of that thread, and sessions may open and close on several
    threads. A comparison of the reports on the new thread and on this one shows whether a setting holds for the
    process.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="aioflow-blas") as thread:
        return thread.submit(function).result()


_process: Final = _ProcessSetting()
