"""oneDNN, a library of optimised kernels: found and loaded when a kernel is first looked for, never at import.

It is looked for where AIOFLOW_ONEDNN says (the path of a libdnnl.so.3; "off" or "0" for nowhere), else among the files
of the wheel onednn-cpu-gomp, beside the interpreter, where conda puts it, and where the system's loader looks. What is
not found is not missed: every op has a kernel that needs NumPy alone.
"""

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
"""Those under which a call is over when it returns; oneDNN's numbers for them."""
_forked: Final[list[bool]] = []
"""Not empty in a child of a process in which the library was loaded."""
_watching: Final[list[bool]] = []
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
"""Variables by which users say how long the idle threads of GNU's OpenMP spin before they sleep."""
_SPINS: Final = "1000"
"""How long they spin otherwise, about 10 us: by default it is milliseconds, which other threads of the process lose."""
_POINTER: Final = ctypes.c_void_p
_EXECUTE: Final = (_POINTER, _POINTER, ctypes.c_int, _POINTER)
_SIZE: Final = ctypes.c_int64
_SGEMM: Final = (
    ctypes.c_char, ctypes.c_char, _SIZE, _SIZE, _SIZE,
    ctypes.c_float, _POINTER, _SIZE, _POINTER, _SIZE, ctypes.c_float, _POINTER, _SIZE,
)  # fmt: skip
_CPU: Final = 1


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
    """oneDNN, loaded.

    Attributes:
        path: what was loaded.
        version: as (3, 2, 0).
        engine: the handle of its CPU engine.
        execute: dnnl_primitive_execute, which lets go of the interpreter; it returns a status.
        sgemm: dnnl_sgemm, which lets go of the interpreter; it returns a status.
        wait: dnnl_stream_wait, likewise.
        point: dnnl_memory_set_data_handle, likewise but holding on to it.
    """

    def __init__(self, path: str) -> None:
        """Load it. OSError if that cannot be done; NotFoundError for another version or a runtime of other kind."""
        self.path: Final = path
        self._dll = _load(path)
        self._quick = ctypes.PyDLL(path)  # for what takes less time than letting go of the interpreter
        self.version: Final = self._check_version()
        self.execute: Final = self._dll.dnnl_primitive_execute
        self.execute.argtypes = _EXECUTE
        self.point: Final = self._quick.dnnl_memory_set_data_handle
        self.point.argtypes = (_POINTER, _POINTER)
        self.wait: Final = self._dll.dnnl_stream_wait
        self.wait.argtypes = (_POINTER,)
        self.sgemm: Final = self._dll.dnnl_sgemm
        self.sgemm.argtypes = _SGEMM
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
        """Call a function that returns a status. An OpError that names the function unless that is success."""
        check(function, getattr(self._dll, function)(*arguments))

    def create(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        """The handle that such a function stores at its first argument."""
        handle = _POINTER()
        self.call(function, ctypes.byref(handle), *arguments)
        return handle

    def query(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        """What a function that returns a pointer returns."""
        ask = getattr(self._quick, function)
        ask.restype = _POINTER
        return _POINTER(ask(*arguments))

    def size(self, descriptor: ctypes.c_void_p) -> int:
        """How many bytes a memory descriptor describes."""
        ask = self._quick.dnnl_memory_desc_get_size
        ask.restype = ctypes.c_size_t
        return int(ask(descriptor))

    def equal(self, a: ctypes.c_void_p, b: ctypes.c_void_p) -> bool:
        """Whether two memory descriptors say the same."""
        return bool(self._quick.dnnl_memory_desc_equal(a, b))

    def __repr__(self) -> str:
        return f"<oneDNN {'.'.join(map(str, self.version))} at {self.path}>"


def _load(path: str) -> ctypes.CDLL:
    """The library, loaded with an OpenMP whose idle threads soon sleep; that reads its variables when it is loaded."""
    if any(name in os.environ for name in _PATIENCE):
        return ctypes.CDLL(path)
    os.environ[_PATIENCE[1]] = _SPINS
    try:
        return ctypes.CDLL(path)
    finally:
        del os.environ[_PATIENCE[1]]


def check(function: str, status: int) -> None:
    """An OpError that names the function unless `status` is success."""
    if status:
        what = STATUS[status] if 0 <= status < len(STATUS) else f"status {status}"
        raise _ERRORS.get(status, errors.InternalError)(f"oneDNN's {function} says {what}")


@functools.cache
def library() -> Library | None:
    """oneDNN, or None if it is not there or switched off.

    NotFoundError if AIOFLOW_ONEDNN names what cannot be loaded. None too in a process forked from one that used it:
    GNU's OpenMP has lost its threads there and would wait for them for ever.
    """
    setting = os.environ.get(SWITCH, "").strip()
    if setting.lower() in ("off", "0") or _forked:
        return None
    if setting:
        try:
            return _forbid_in_children(Library(setting))
        except (OSError, AttributeError, errors.NotFoundError) as error:
            raise errors.NotFoundError(
                f"{SWITCH} is {setting!r}, which cannot be used: {error}; set it to the path of a {FILE} or to 'off'"
            ) from error
    for path in _candidate_paths():
        try:
            return _forbid_in_children(Library(path))
        except (OSError, AttributeError, errors.NotFoundError) as error:
            if path != FILE:
                _log.warning("oneDNN is at %s and cannot be used: %s", path, error)
    return None


def _forbid_in_children(found: Library) -> Library:
    if not _forked and not _watching:
        _watching.append(True)
        os.register_at_fork(after_in_child=_mark_as_forked)
    return found


def _mark_as_forked() -> None:
    _forked.append(True)
    library.cache_clear()


def available() -> bool:
    """Whether oneDNN can be used."""
    return library() is not None


def _candidate_paths() -> Iterator[str]:
    """Where the library may be: files that exist, and at last its bare name, for the system's loader."""
    import importlib.metadata  # takes longer than all else that importing aioflow does for this

    try:
        files = importlib.metadata.files(_WHEEL) or ()
    except importlib.metadata.PackageNotFoundError:
        files = ()
    for path in [*(file.locate() for file in files if file.name == FILE), Path(sys.prefix, "lib", FILE)]:
        if Path(path).is_file():
            yield str(Path(path).resolve())
    yield FILE
