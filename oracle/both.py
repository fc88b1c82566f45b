"""Runs of one call in either library: the same steps on the same inputs."""

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import aioflow as af
from aioflow.graph.indexed_slices import dense
from aioflow.tensors.dtypes import as_dtype
from oracle.draw import Call

Build = Callable[..., Any]
_LOOP = asyncio.new_event_loop()


class Refused(Exception):
    """The library has no such op for such dtypes: nothing to compare."""


@dataclasses.dataclass(frozen=True)
class Failed:
    """The library found the call wrong."""

    error: Exception

    def __repr__(self) -> str:
        return f"{type(self.error).__name__}: {str(self.error)[:400]}"


@dataclasses.dataclass(frozen=True)
class Ran:
    """What a call gave, and the types of the ops that it was made of."""

    values: list[Any]
    ops: frozenset[str] = frozenset()


Outcome = Ran | Failed
_REFUSALS = (
    "No OpKernel was registered",
    "DataType",
    "not supported on CPU",
    "only supports NHWC",
    "CPU implementation",
    "Type mismatch",
)
"""What TensorFlow says where it has the op, but not for such dtypes or on this device."""


@functools.cache
def tensorflow() -> Any:
    """TensorFlow's v1 module, building graphs."""
    import tensorflow.compat.v1 as v1

    v1.disable_eager_execution()
    v1.enable_resource_variables()
    v1.logging.set_verbosity(v1.logging.ERROR)
    return v1


def ours(build: Build, call: Call, order: int = 0) -> Outcome:
    """The call in aioflow, or its gradients of that order."""
    try:
        return _LOOP.run_until_complete(_ours(build, call, order))
    except (TypeError, ValueError, LookupError, af.errors.OpError) as error:
        return Failed(error)


async def _ours(build: Build, call: Call, order: int) -> Ran:
    with af.Graph().as_default() as graph:
        feeds = {af.placeholder(as_dtype(_dtype(array)), array.shape): array for array in call.arrays}
        fetches = flat(build(af, *feeds, **call.attrs))
        for _ in range(order):
            fetches = [dense(found) for found in _gradients(af, fetches, list(feeds), call)]
        prepare = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(prepare, feeds)
        values = await session.run(fetches, feeds) if fetches else []
    return Ran(values, frozenset(operation.type for operation in graph.get_operations()))


def theirs(build: Build, call: Call, order: int = 0) -> Outcome:
    """The call in TensorFlow, or its gradients of that order. Refused if it has no such op or gradient."""
    v1 = tensorflow()
    try:
        return _theirs(v1, build, call, order)
    except (TypeError, LookupError, NotImplementedError, v1.errors.UnimplementedError) as error:
        raise Refused from error
    except (ValueError, v1.errors.OpError) as error:
        if _is_refusal(str(error)):
            raise Refused from error
        return Failed(error)


def _theirs(v1: Any, build: Build, call: Call, order: int) -> Ran:
    with v1.Graph().as_default() as graph:
        feeds = {v1.placeholder(_dtype(array), array.shape): array for array in call.arrays}
        fetches = flat(build(v1, *feeds, **call.attrs))
        for _ in range(order):
            found = _gradients(v1, fetches, list(feeds), call)
            fetches = [v1.convert_to_tensor(gradient) for gradient in found]
        prepare = v1.global_variables_initializer()
        with v1.Session(graph=graph, config=_config()) as session:
            session.run(prepare, feeds)
            return Ran(session.run(fetches, feeds))


@functools.cache
def _config() -> Any:
    config = tensorflow().ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


def _is_refusal(text: str) -> bool:
    return any(words in text for words in _REFUSALS)


def _dtype(array: Any) -> str:
    return "string" if array.dtype == object else str(array.dtype)


def flat(result: Any) -> list[Any]:
    """The tensors of a result, in order."""
    if result is None or type(result).__name__ == "Operation":
        return []
    if hasattr(result, "dense_shape"):
        return [result.indices, result.values, result.dense_shape]
    if isinstance(result, (list, tuple)):
        return [tensor for part in result for tensor in flat(part)]
    return [result]


def _gradients(library: Any, ys: Sequence[Any], xs: Sequence[Any], call: Call) -> list[Any]:
    """The gradients of what can be moved with respect to what can be moved, zeros where there is no path."""
    ys = [y for y in ys if _moves(y)]
    xs = [x for x in xs if _moves(x)]
    if not ys or not xs:
        return []
    weights = [_weights(library, y) for y in ys]
    return list(library.gradients(ys, xs, weights, unconnected_gradients="zero"))


def _moves(tensor: Any) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex)


def _weights(library: Any, y: Any) -> Any:
    """cos(0), cos(1) ... in the shape of y, whatever that will be."""
    whole = y.shape.is_fully_defined()
    shape = np.array(y.shape.as_list(), np.int32) if whole else library.shape(y)
    count = library.range(library.reduce_prod(shape))
    return library.cast(library.reshape(library.cos(library.cast(count, library.float64)), shape), y.dtype)


def mismatch(ran: list[Any], reference: list[Any], rtol: float, exempt: Any = None) -> str | None:
    """What differs, in words. Elements where `exempt` holds may."""
    if len(ran) != len(reference):
        return f"{len(ran)} results, TensorFlow gives {len(reference)}"
    for place, (mine, other) in enumerate(zip(map(np.asarray, ran), map(np.asarray, reference), strict=True)):
        if mine.dtype != other.dtype or mine.shape != other.shape:
            return f"result {place} is {mine.dtype} {mine.shape}, TensorFlow's {other.dtype} {other.shape}"
        wrong = ~_close(mine, other, rtol)
        if exempt is not None and np.ndim(exempt) <= mine.ndim:
            wrong &= ~np.broadcast_to(exempt, wrong.shape)
        if wrong.any():
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            return f"result {place} at {where} is {mine[where]!r}, TensorFlow's {other[where]!r}\n{mine!r}\n{other!r}"
    return None


def _close(mine: Any, other: Any, rtol: float) -> Any:
    if mine.dtype.kind not in "fc":
        return np.asarray(mine == other, bool)
    with np.errstate(all="ignore"):
        finite = np.abs(other[np.isfinite(other)]).astype(float)
        scale = np.maximum(np.abs(other), 1e-3 * finite.max(initial=0) if finite.size else 0)
        near = np.abs(mine - other) <= rtol * float(np.finfo(other.dtype).eps) * (scale + 1)
        same = (mine == other) | (np.isnan(mine) & np.isnan(other))
    return near & np.isfinite(mine) & np.isfinite(other) | same
