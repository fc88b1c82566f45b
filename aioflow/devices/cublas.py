"""Products of matrices on a GPU by cuBLAS, which CUDA graphs can contain: CuPy refuses its own during a capture.

cuBLAS needs workspace. By default it takes and frees it as it likes, which no graph can repeat, so each stream has its
own. A graph uses the workspace of the stream that it is launched on.
"""

import contextlib
import ctypes
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from aioflow.tensors.dtypes import Array, bfloat16

WORKSPACE: Final = 32 << 20
"""Bytes of workspace of a stream: what NVIDIA recommends for the GPUs of 2022 and later."""
_LIBRARIES: Final = ("libcublas.so.13", "libcublas.so.12")
_REAL_32, _REAL_64, _REAL_16, _BFLOAT, _COMPLEX_32, _COMPLEX_64 = 0, 1, 2, 14, 4, 5
_IN_32, _IN_64 = 68, 70
_DEFAULT_ALGORITHM: Final = -1


class _Kind(NamedTuple):
    """How cuBLAS multiplies arrays of one dtype.

    Attributes:
        data: cuBLAS's number of the dtype.
        compute: its number of the arithmetic.
        scalar: the C type of factors; complex ones are two.
    """

    data: int
    compute: int
    scalar: Any


_KINDS: Final = {
    np.dtype(np.float32): _Kind(_REAL_32, _IN_32, ctypes.c_float * 1),
    np.dtype(np.float64): _Kind(_REAL_64, _IN_64, ctypes.c_double * 1),
    np.dtype(np.float16): _Kind(_REAL_16, _IN_32, ctypes.c_float * 1),
    bfloat16.np: _Kind(_BFLOAT, _IN_32, ctypes.c_float * 1),
    np.dtype(np.complex64): _Kind(_COMPLEX_32, _IN_32, ctypes.c_float * 2),
    np.dtype(np.complex128): _Kind(_COMPLEX_64, _IN_64, ctypes.c_double * 2),
}


class Operand(NamedTuple):
    """A batch of matrices in memory, as BLAS describes them.

    Attributes:
        by_columns: whether neighbours in memory are neighbours in a column.
        leading: the distance of two rows, or of two columns, in elements.
        step: the distance of two matrices, in elements.
    """

    by_columns: bool
    leading: int
    step: int


def operand(shape: Sequence[int], strides: Sequence[int], itemsize: int, count: int) -> Operand | None:
    """Return the operand for `count` matrices, one that is repeated if `shape` has rank 2; None if a copy is needed."""
    rows, columns = shape[-2:]
    row, column = strides[-2:]
    if columns == 1 or column == itemsize:
        by_columns, leading, least = False, row, columns
    else:
        by_columns, leading, least = True, column, rows
        if rows != 1 and row != itemsize:
            return None
    if (columns if by_columns else rows) == 1:
        leading = least * itemsize
    if leading < least * itemsize or leading % itemsize:
        return None
    step = 0 if len(shape) == 2 or count == 1 else _step(shape[:-2], strides[:-2])
    return None if step is None or step % itemsize else Operand(by_columns, leading // itemsize, step // itemsize)


def _step(batch: Sequence[int], strides: Sequence[int]) -> int | None:
    """Return the distance of two matrices if all are equally far apart; else None."""
    step: int | None = None
    size = 1
    for length, stride in zip(reversed(batch), reversed(strides), strict=True):
        if length == 1:
            continue
        if step is None:
            step = stride
        elif stride != step * size:
            return None
        size *= length
    return 0 if step is None else step


class Cublas:
    """Products on the streams of one GPU."""

    def __init__(self, cupy: Any) -> None:
        self._cupy: Final = cupy
        self._library: Any = None
        self._handle = ctypes.c_void_p()
        self._bound: int | None = None
        self._workspaces: Final[dict[int, Any]] = {}
        self._launched_on: Final[dict[int, int]] = {}

    def matmul(self, a: Array, b: Array, out: Any = None) -> Array:
        """Return the product of matrices, or of batches of them, as NumPy's `matmul`.

        CuPy multiplies vectors and the dtypes that cuBLAS does not have.
        """
        kind = _KINDS.get(a.dtype)
        if kind is None or b.dtype != a.dtype or min(a.ndim, b.ndim) < 2 or a.shape[-1] != b.shape[-2]:
            return self._cupy.matmul(a, b, out=out)
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = [self._cupy.broadcast_to(x, batch + x.shape[-2:]) if x.ndim > 2 else x for x in (a, b)]
        shape = (*batch, a.shape[-2], b.shape[-1])
        made: Array = out if _can_be_filled(out, shape, a.dtype) else self._cupy.empty(shape, a.dtype)
        if not made.size or not a.shape[-1]:
            made[...] = 0
        else:
            self._multiply(kind, a, b, made, math.prod(batch))
        if out is None or made is out:
            return made
        out[...] = made
        return out

    @contextlib.contextmanager
    def captured(self, capturing: Any, launched_on: Any) -> Iterator[None]:
        """Let products on the stream `capturing` use the workspace of the other inside the block."""
        self._launched_on[capturing.ptr] = launched_on.ptr
        try:
            yield
        finally:
            del self._launched_on[capturing.ptr]
            self._bound = None  # a later stream may have its address

    def _multiply(self, kind: _Kind, a: Array, b: Array, out: Array, count: int) -> None:
        """Fill the contiguous `out`. BLAS reads by columns, so for it that is the transpose of b times that of a."""
        self._bind(self._cupy.cuda.get_current_stream().ptr)
        (a, left), (b, right) = self._operand(a, count), self._operand(b, count)
        rows, columns, inner = a.shape[-2], b.shape[-1], a.shape[-1]
        one, zero = kind.scalar(1), kind.scalar(0)
        self._call(
            "cublasGemmStridedBatchedEx",
            self._handle, int(right.by_columns), int(left.by_columns), columns, rows, inner, one,
            ctypes.c_void_p(b.data.ptr), kind.data, right.leading, ctypes.c_longlong(right.step),
            ctypes.c_void_p(a.data.ptr), kind.data, left.leading, ctypes.c_longlong(left.step), zero,
            ctypes.c_void_p(out.data.ptr), kind.data, columns, ctypes.c_longlong(rows * columns),
            count, kind.compute, _DEFAULT_ALGORITHM,
        )  # fmt: skip

    def _operand(self, x: Array, count: int) -> tuple[Array, Operand]:
        found = operand(x.shape, x.strides, x.itemsize, count)
        if found is None:
            x = self._cupy.ascontiguousarray(x)
            found = operand(x.shape, x.strides, x.itemsize, count)
            assert found is not None
        return x, found

    def _bind(self, stream: int) -> None:
        """Direct the library to a stream. That takes away its workspace, so it is given again."""
        if stream == self._bound:
            return
        if self._library is None:
            self._open()
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream))
        home = self._launched_on.get(stream, stream)
        memory = self._workspaces.get(home)
        if memory is None:
            memory = self._workspaces[home] = self._cupy.cuda.Memory(WORKSPACE)
        self._call("cublasSetWorkspace_v2", self._handle, ctypes.c_void_p(memory.ptr), ctypes.c_size_t(WORKSPACE))
        self._bound = stream

    def _open(self) -> None:
        _ = self._cupy.cuda.cublas.getVersion  # CuPy finds the library and loads it
        for name in _LIBRARIES:
            with contextlib.suppress(OSError):
                self._library = ctypes.CDLL(name)
                break
        else:
            raise ImportError(f"none of {', '.join(_LIBRARIES)} is loaded")
        self._call("cublasCreate_v2", ctypes.byref(self._handle))

    def _call(self, name: str, *arguments: Any) -> None:
        function: Callable[..., int] = getattr(self._library, name)
        status = function(*arguments)
        if status:
            raise RuntimeError(f"{name} failed with status {status}")

    def __del__(self) -> None:
        if self._handle and not sys.is_finalizing():
            self._library.cublasDestroy_v2(self._handle)


def _can_be_filled(out: Any, shape: Sequence[int], dtype: np.dtype[Any]) -> bool:
    return out is not None and out.flags.c_contiguous and out.dtype == dtype and out.shape == shape
