"""oneDNN, a library of optimised kernels. It is loaded when a kernel is first chosen, never at import.

AIOFLOW_ONEDNN is the path of a libdnnl.so.3, or "off" or "0" to disable it. Without that the search covers the files of
the wheel onednn-cpu-gomp, the folder of the interpreter, conda's folder, and the system loader's folders. If the
library is not found, every op uses its NumPy kernel.
"""

import contextlib
import ctypes
import functools
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from aioflow import errors

SWITCH: Final = "AIOFLOW_ONEDNN"
FILE: Final = "libdnnl.so.3"
_WHEEL: Final = "onednn-cpu-gomp"
_MAJOR: Final = 3
_RUNTIMES: Final = {1: "sequential", 2: "OpenMP", 4: "TBB"}
"""{oneDNN's number: name} of the CPU runtimes whose calls are finished when they return."""
_forked: Final[list[bool]] = []
"""Not empty in a child of a process that had loaded the library."""
_watching: Final[list[bool]] = []
_loaded: Final[list["Library"]] = []
"""The library that was loaded last."""
_log: Final = logging.getLogger("aioflow.devices")

STATUS: Final = (
    "success", "out_of_memory", "invalid_arguments", "unimplemented", "last_impl_reached", "runtime_error",
    "not_required", "invalid_graph", "invalid_graph_op", "invalid_shape", "invalid_data_type",
)  # fmt: skip
_ERRORS: Final[dict[int, type[errors.OpError]]] = {
    1: errors.ResourceExhaustedError,
    2: errors.InvalidArgumentError,
    3: errors.UnimplementedError,
}
_PATIENCE: Final = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
"""The environment variables that set how long idle threads of GNU's OpenMP spin before they sleep."""
_SPINS: Final = "100000"
"""The default here, about a millisecond: as long as a step is busy between two products, which otherwise wake
the threads.

GNU's default is three times as long: CPU time that other threads of the process lose.
"""
_KEEP_SETTINGS: Final = 1
"""How to pause OpenMP: without losing what `omp_set_num_threads` has set."""
_POINTER: Final = ctypes.c_void_p
_EXECUTE: Final = (_POINTER, _POINTER, ctypes.c_int, _POINTER)
_SIZE: Final = ctypes.c_int64
_SGEMM: Final = (
    ctypes.c_char, ctypes.c_char, _SIZE, _SIZE, _SIZE,
    ctypes.c_float, _POINTER, _SIZE, _POINTER, _SIZE, ctypes.c_float, _POINTER, _SIZE,
)  # fmt: skip
_CPU: Final = 1
_AVX512: Final = 0x20
"""The bit of oneDNN's number of the processor's instructions that says it has AVX-512."""


class _Version(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("patch", ctypes.c_int),
        ("hash", ctypes.c_char_p),
        ("cpu_runtime", ctypes.c_uint),
        ("gpu_runtime", ctypes.c_uint),
    )


class Library:
    """The loaded oneDNN library.

    Attributes:
        path: the loaded file.
        version: as (3, 2, 0).
        engine: the handle of its CPU engine.
        execute: dnnl_primitive_execute, which releases the GIL; it returns a status.
        sgemm: dnnl_sgemm, which releases the GIL; it returns a status.
        point: dnnl_memory_set_data_handle, which holds the GIL; it returns a status.
        avx512: whether it computes with vectors of 64 bytes.
        floats: the number of float32 in a vector.
    """

    def __init__(self, path: str) -> None:
        """Load the library. OSError if that fails; NotFoundError for another version or another kind of runtime."""
        self.path: Final = path
        self._dll = _load(path)
        self._quick = ctypes.PyDLL(path)  # for calls that take less time than releasing the GIL
        self.version: Final = self._check_version()
        self.execute: Final = self._dll.dnnl_primitive_execute
        self.execute.argtypes = _EXECUTE
        self.point: Final = self._quick.dnnl_memory_set_data_handle
        self.point.argtypes = (_POINTER, _POINTER)
        self.sgemm: Final = self._dll.dnnl_sgemm
        self.sgemm.argtypes = _SGEMM
        self.avx512: Final = bool(self._quick.dnnl_get_effective_cpu_isa() & _AVX512)
        self.floats: Final = 16 if self.avx512 else 8
        self._threads: Final = getattr(self._quick, "omp_get_max_threads", None)
        self._set_threads: Final = getattr(self._quick, "omp_set_num_threads", None)
        self._pause: Final = getattr(self._dll, "omp_pause_resource_all", None)
        self.engine: Final = self.create("dnnl_engine_create", _CPU, ctypes.c_size_t(0))

    def _check_version(self) -> tuple[int, int, int]:
        ask = self._quick.dnnl_version
        ask.restype = ctypes.POINTER(_Version)
        found = ask().contents
        if found.major != _MAJOR or found.cpu_runtime not in _RUNTIMES:
            raise errors.NotFoundError(
                f"{self.path} is oneDNN {found.major}.{found.minor}.{found.patch} with runtime {found.cpu_runtime}; "
                f"version {_MAJOR} is needed, with one of {', '.join(_RUNTIMES.values())}"
            )
        return found.major, found.minor, found.patch

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function that returns a status.

        Raises an OpError that names the function unless the status is success.
        """
        check(function, getattr(self._dll, function)(*arguments))

    def create(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        """Call such a function and return the handle that it stores at its first argument."""
        handle = _POINTER()
        self.call(function, ctypes.byref(handle), *arguments)
        return handle

    @contextlib.contextmanager
    def one_thread(self) -> Iterator[None]:
        """Primitives that this thread runs inside the block use no other thread, if OpenMP distributes their work."""
        if self._threads is None or self._set_threads is None:
            yield
            return
        before = self._threads()
        self._set_threads(1)
        try:
            yield
        finally:
            self._set_threads(before)

    def end_threads(self) -> None:
        """End the threads that OpenMP keeps for the calling thread. Its next primitive starts them again."""
        if self._pause is not None:
            self._pause(_KEEP_SETTINGS)

    def query(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        """Call a function that returns a pointer."""
        ask = getattr(self._quick, function)
        ask.restype = _POINTER
        return _POINTER(ask(*arguments))

    def size(self, descriptor: ctypes.c_void_p) -> int:
        """Return the bytes of memory that a descriptor describes."""
        ask = self._quick.dnnl_memory_desc_get_size
        ask.restype = ctypes.c_size_t
        return int(ask(descriptor))

    def equal(self, a: ctypes.c_void_p, b: ctypes.c_void_p) -> bool:
        """Whether two memory descriptors are equal."""
        return bool(self._quick.dnnl_memory_desc_equal(a, b))

    def __repr__(self) -> str:
        return f"<oneDNN {'.'.join(map(str, self.version))} at {self.path}>"


def _load(path: str) -> ctypes.CDLL:
    """Load the library, with short spinning of idle threads. OpenMP reads that variable when it is loaded."""
    if any(name in os.environ for name in _PATIENCE):
        return ctypes.CDLL(path)
    os.environ[_PATIENCE[1]] = _SPINS
    try:
        return ctypes.CDLL(path)
    finally:
        del os.environ[_PATIENCE[1]]


def check(function: str, status: int) -> None:
    """Raise an OpError that names the function unless `status` is success."""
    if status:
        what = STATUS[status] if 0 <= status < len(STATUS) else f"status {status}"
        raise _ERRORS.get(status, errors.InternalError)(f"oneDNN's {function} says {what}")


@functools.cache
def library() -> Library | None:
    """Return the library, or None if it is not installed or switched off.

    NotFoundError if AIOFLOW_ONEDNN names a file that cannot be loaded. Also None in a process forked from one that used
    the library: GNU's OpenMP has lost its threads there and would wait for them forever.
    """
    setting = os.environ.get(SWITCH, "").strip()
    if setting.lower() in ("off", "0") or _forked:
        return None
    if setting:
        try:
            return _registered(Library(setting))
        except (OSError, AttributeError, errors.NotFoundError) as error:
            raise errors.NotFoundError(
                f"{SWITCH} is {setting!r}, which cannot be used: {error}; set it to the path of a {FILE} or to 'off'"
            ) from error
    for path in _candidate_paths():
        try:
            return _registered(Library(path))
        except (OSError, AttributeError, errors.NotFoundError) as error:
            if path != FILE:
                _log.warning("oneDNN is at %s and cannot be used: %s", path, error)
    return None


def _registered(found: Library) -> Library:
    """Record the loaded library, and see to it that forked processes do not use it."""
    _loaded[:] = [found]
    if not _forked and not _watching:
        _watching.append(True)
        os.register_at_fork(after_in_child=_mark_as_forked)
    return found


def _mark_as_forked() -> None:
    _forked.append(True)
    library.cache_clear()


def loaded() -> Library | None:
    """The library if it is loaded, even if it was switched off afterwards; None in a forked process."""
    return _loaded[0] if _loaded and not _forked else None


def available() -> bool:
    """Whether oneDNN can be used."""
    return library() is not None


def _candidate_paths() -> Iterator[str]:
    """Yield the possible files of the library, and last its bare name for the system's loader."""
    import importlib.metadata  # takes longer than the rest of the import

    try:
        files = importlib.metadata.files(_WHEEL) or ()
    except importlib.metadata.PackageNotFoundError:
        files = ()
    for path in [*(file.locate() for file in files if file.name == FILE), Path(sys.prefix, "lib", FILE)]:
        if Path(path).is_file():
            yield str(Path(path).resolve())
    yield FILE
