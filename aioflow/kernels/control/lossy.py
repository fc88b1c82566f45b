"""Lossy compression of tensors between devices: the user's `lossy`, and the ops that plans add around such edges.

The session's Config turns it on for a whole graph, `lossy` for one tensor. Within one device neither has an effect.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.context import Context, Undo
from aioflow.kernels.families import CPU, GPU, costs
from aioflow.resources.containers import Resources
from aioflow.tensors import codecs, dtypes
from aioflow.tensors.codecs import Codec, Residual, SavingsByEdge
from aioflow.tensors.dtypes import Array, DType, Namespace, ResourceSpec, Spec, TensorShape

LOSSY: Final = frozenset({dtypes.float32, dtypes.float64})
"""The dtypes with lossy codecs."""
_TRUTH: Final = frozenset({dtypes.bool_})
_REASON: Final = "it rounds; take the gradient of the value before the codec"


# For users


@op(name="lossy")
def _lossy(input: Spec, codec: str, gradients: bool = False) -> Spec:
    """`input` unchanged, but that another device gets it in a lossy form."""
    Codec.parse(codec)
    return input.only(LOSSY)


@_lossy.gradient
def _(op: Operation, dy: Tensor | IndexedSlices) -> Tensor | IndexedSlices:
    return lossy(dy, op.attrs["codec"], gradients=True) if op.attrs["gradients"] else dy


_lossy.kernel(CPU, GPU)(lambda xp, x: x)


@transactional
def lossy(tensor: TensorLike, codec: str, gradients: bool = False, name: str | None = None) -> Any:
    """`tensor`, compressed by a lossy codec wherever it goes from one device to another.

    Args:
        tensor: float32 or float64; the codec compresses the values of IndexedSlices, and never their indices.
        codec: `bfloat16`, `bfloat16_truncated`, `float16`, `int8`, `int8_rows`, or `top_k:` and a fraction.
        gradients: whether to compress the gradient of the tensor, too.
        name: the name of the operation.

    Raises:
        TypeError: the dtype is not float32 or float64: integers, bools and strings are never compressed.
        ValueError: the codec is unknown.

    Examples:
        >>> await session.run(af.lossy(af.constant([1.0, 2.0]), "bfloat16"))
        array([1., 2.], dtype=float32)
    """
    if isinstance(tensor, IndexedSlices):
        values = lossy(tensor.values, codec, gradients, name)
        return IndexedSlices(values, tensor.indices, tensor.dense_shape)
    source = convert_to_tensor(tensor)
    with source.graph.colocate_with(source.op, ignore_existing=True):
        return _lossy(source, codec, gradients, name=name)


# For plans


@op
def lossy_encode(input: Spec, codec: str) -> Spec:
    """`input` in a form that keeps nothing from step to step."""
    input.only(LOSSY)
    name = Codec.parse(codec).name
    if name == "top_k":
        raise ValueError("lossy_encode keeps no residual, which top_k needs: use lossy_encode_top_k")
    if name.startswith("int8"):
        shape = input.shape
        sizes: Any = shape.sizes if shape.is_fully_defined() else None
        known = None if sizes is None else codecs.int8_bytes(sizes, input.dtype.size, name == "int8_rows")
        return Spec(dtypes.uint8, TensorShape.vector(known))
    return Spec(dtypes.float16 if name == "float16" else dtypes.uint16, input.shape)


@lossy_encode.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    name = node.attrs["codec"]
    if name == "float16":
        return lambda x: x.astype(np.float16)
    if name.startswith("int8"):
        return lambda x: codecs.to_int8(xp, x, name == "int8_rows")
    return lambda x: codecs.to_bfloat16(xp, x, name == "bfloat16_truncated")


@op(stateful=True, observes=True, handle=True)
def lossy_residual(container: str = "", shared_name: str = "") -> Spec:
    """A handle to the residual of one edge: the sum of the elements that top_k has not sent so far."""
    return ResourceSpec(())


@lossy_residual.kernel(CPU, GPU)
def _(ctx: Context, *, node: NodeView) -> Residual:
    name = node.attrs["shared_name"] or node.name
    return ctx.resources.container(node.attrs["container"]).lookup_or_create(Residual, name, lambda: Residual(name))


@op(stateful=True)
def lossy_encode_top_k(input: Spec, residual: Spec, keep: float) -> Spec:
    """The largest elements of `input` plus the residual; the rest becomes the new residual.

    A step that fails, on this or another task, leaves the residual as it was.
    """
    input.only(LOSSY)
    ResourceSpec.check(residual, 0)
    return Spec(dtypes.uint8, TensorShape.vector(None))


@lossy_encode_top_k.kernel(CPU, GPU, fresh=True)
def _(ctx: Context, x: Array, residual: Residual, *, keep: float) -> Array:
    carried = residual.take(x.shape)
    try:
        wire, rest = codecs.to_top_k(ctx.xp, x, keep, carried)
        ctx.step.check()
    except BaseException:
        residual.give(carried)
        raise
    residual.give(rest)
    ctx.step.common(Undo).add(lambda: residual.undo(rest, carried))
    return wire


@op(stateful=True)
def lossy_keep(accepted: Spec) -> None:
    """Commits the step's residuals on this task if the update was accepted; otherwise restores the old ones."""
    if accepted.only(_TRUTH).rank not in (None, 0):
        raise ValueError(f"accepted must be one truth value, its shape is {accepted.shape}")


lossy_keep.on_host("accepted")


@lossy_keep.kernel(CPU, GPU)
def _(ctx: Context, accepted: Array) -> None:
    if not accepted:
        ctx.step.common(Undo).now()


@op
def lossy_decode(wire: Spec, codec: str, dtype: DType, shape: TensorShape, edge: str) -> Spec:
    """The decoded tensor, in its own dtype and shape; counts the saved bytes for that edge, unless it has no name."""
    Codec.parse(codec)
    return Spec(dtype, shape).only(LOSSY)


@lossy_decode.kernel(CPU, GPU, fresh=True)
def _(ctx: Context, wire: Array, *, codec: str, dtype: DType, shape: TensorShape, edge: str) -> Array:
    value = _decoded(ctx.xp, wire, Codec.parse(codec), dtype.np, shape)
    if edge:
        savings_of(ctx.resources).add(edge, wire.nbytes, value.nbytes)
    return value


def _decoded(xp: Namespace, wire: Array, codec: Codec, dtype: np.dtype[Any], shape: TensorShape) -> Array:
    name = codec.name
    if name == "float16":
        return wire.astype(dtype)
    if name == "top_k":
        return codecs.from_top_k(xp, wire, dtype, shape, codec.keep)
    if name.startswith("int8"):
        return codecs.from_int8(xp, wire, dtype, shape, name == "int8_rows")
    return codecs.from_bfloat16(xp, wire, dtype)


def savings_of(resources: Resources) -> SavingsByEdge:
    """The session's count of bytes saved by lossy codecs."""
    return resources.container("").lookup_or_create(SavingsByEdge, "lossy", SavingsByEdge)


@lossy_decode.cost
def _(inputs: Sequence[Spec], outputs: Sequence[Spec], attrs: Any) -> float:
    return 2 * float(outputs[0].shape.num_elements() or 32)


costs(lossy_encode, 6)
costs(lossy_encode_top_k, 20)
for _op in (lossy_encode, lossy_residual, lossy_encode_top_k, lossy_decode, lossy_keep):
    _op.no_gradient(_REASON)
