"""Padding, with a value or with the tensor's own elements mirrored at its borders."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from aioflow.graph.building import transactional
from aioflow.graph.convert import NumberLike, TensorLike, constant_value, convert_to_tensor
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import Ints, op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import OPERATORS
from aioflow.kernels import known
from aioflow.kernels.array.shapes import reshape, shape_of
from aioflow.kernels.families import CPU, GPU
from aioflow.tensors.as_array import as_array
from aioflow.tensors.dtypes import Array, Namespace, Spec, TensorShape, int32, string
from aioflow.tensors.object_arrays import full_array, move_positions

Pairs = list[tuple[int, int]]
_MIRRORS: Final = {"REFLECT": "reflect", "SYMMETRIC": "symmetric"}


@op(name="pad")
def _pad(tensor: Spec, paddings: Ints, mode: str = "CONSTANT", constant_values: Any = 0) -> Spec:
    """`tensor` with `paddings[2i]` elements before and `paddings[2i + 1]` after the others along axis i."""
    if mode not in ("CONSTANT", *_MIRRORS):
        raise ValueError(f"mode is CONSTANT, REFLECT or SYMMETRIC, not {mode!r}")
    _filler(tensor, constant_values)
    flat = known.shape(paddings, "paddings").sizes
    if flat is None:
        return Spec(tensor.dtype, tensor.shape if tensor.sizes is None else TensorShape((None,) * len(tensor.sizes)))
    if len(flat) % 2:
        raise ValueError(f"paddings come in pairs, and these are {len(flat)}")
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    sizes = (None,) * len(pairs) if tensor.sizes is None else tensor.sizes
    if len(sizes) != len(pairs):
        raise ValueError(
            f"paddings must be [rank, 2]: the tensor has rank {len(sizes)}, and there are {len(pairs)} pairs"
        )
    for axis, (size, pair) in enumerate(zip(sizes, pairs, strict=True)):
        _check_pair(mode, axis, size, pair)
    grown = [known.total((size, *pair)) for size, pair in zip(sizes, pairs, strict=True)]
    return Spec(tensor.dtype, tensor.shape if set(flat) <= {0} else TensorShape(grown))


def _filler(tensor: Spec, value: Any) -> Any:
    """`value` as an element of `tensor`; 0 is the zero of any dtype. TypeError or ValueError if it cannot be one."""
    if type(value) is int and value == 0:
        return b"" if tensor.dtype is string else 0
    array = as_array(value, tensor.dtype, strict=True)
    if array.ndim:
        raise ValueError(f"constant_values must be one value, its shape is {list(array.shape)}")
    return array[()]


def _check_pair(mode: str, axis: int, size: int | None, pair: Sequence[int | None]) -> None:
    """ValueError if an axis of that size has too few elements to mirror."""
    limit = None if size is None or mode == "CONSTANT" else size - (mode == "REFLECT")
    widest = max([width for width in pair if width is not None], default=0)
    if limit is not None and widest > max(limit, 0):
        raise ValueError(f"axis {axis} of size {size} cannot be padded by {widest} with mode {mode}")


@_pad.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    tensor, paddings = op.inputs
    mode = op.attrs["mode"]
    if mode != "CONSTANT":
        return _mirror_pad_grad(dy, tensor, paddings, mode), None
    flat = constant_value(paddings)
    if flat is None:
        return OPERATORS["slice"](dy, paddings[::2], shape_of(tensor)), None
    pairs = flat.reshape(-1, 2).tolist()
    return (dy[tuple([slice(before, -after or None) for before, after in pairs])] if pairs else dy), None


@_pad.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array, Array], Array]:
    flat, mode = known.constant(node, 1), node.attrs["mode"]
    value, text = _filler(node.input_specs[0], node.attrs["constant_values"]), node.input_specs[0].dtype is string

    def padded(x: Array, paddings: Array) -> Array:
        pairs = _pairs(x, paddings.tolist() if flat is None else flat)
        if mode != "CONSTANT":
            return _mirrored(xp, x, pairs, mode)
        return _padded(xp, x, pairs, 0 if text and x.dtype != object else value)

    return move_positions(padded, [text, False], value) if text else padded


def _pairs(x: Array, flat: Sequence[int]) -> Pairs:
    if len(flat) != 2 * x.ndim or (flat and min(flat) < 0):
        raise ValueError(f"paddings {list(flat)} do not fit an array of rank {x.ndim}")
    return list(zip(flat[::2], flat[1::2], strict=True))


def _padded(xp: Namespace, x: Array, pairs: Pairs, value: Any) -> Array:
    sizes = [size + before + after for size, (before, after) in zip(x.shape, pairs, strict=True)]
    if x.dtype == object:
        result = full_array(sizes, value)
    else:
        result = xp.zeros(sizes, x.dtype) if value == 0 else xp.full(sizes, value, x.dtype)
    result[tuple([slice(before, -after or None) for before, after in pairs])] = x
    return result


def _mirrored(xp: Namespace, x: Array, pairs: Pairs, mode: str) -> Array:
    for axis, pair in enumerate(pairs):
        _check_pair(mode, axis, x.shape[axis], pair)
    return xp.pad(x, pairs, _MIRRORS[mode]) if pairs else x.copy()


@op(name="mirror_pad_grad")
def _mirror_pad_grad(dy: Spec, tensor: Spec, paddings: Ints, mode: str) -> Spec:
    """The gradient of a padding that mirrors: each element added to the one it was copied from."""
    return Spec(dy.dtype, tensor.shape)


@_mirror_pad_grad.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None, None]:
    return _pad(dy, op.inputs[2], op.attrs["mode"]), None, None


@_mirror_pad_grad.kernel(CPU, GPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array, Array, Array], Array]:
    flat, skip = known.constant(node, 2), int(node.attrs["mode"] == "REFLECT")

    def folded(dy: Array, tensor: Array, paddings: Array) -> Array:
        pairs = _pairs(dy, paddings.tolist() if flat is None else flat)
        for axis, (before, after) in enumerate(pairs):
            dy = _folded(xp, dy, axis, before, after, skip)
        return dy if pairs else dy.copy()

    return folded


def _folded(xp: Namespace, dy: Array, axis: int, before: int, after: int, skip: int) -> Array:
    """`dy` without the borders of one axis, which are mirrored and added to the rest."""
    moved = xp.swapaxes(dy, 0, axis)
    size = len(moved) - before - after
    core = moved[before : before + size].copy()
    if before:
        core[skip : skip + before] += moved[:before][::-1]
    if after:
        core[size - skip - after : size - skip] += moved[before + size :][::-1]
    return xp.swapaxes(core, 0, axis)


@transactional
def pad(
    tensor: TensorLike,
    paddings: NumberLike,
    mode: str = "CONSTANT",
    name: str | None = None,
    constant_values: TensorLike = 0,
) -> Tensor:
    """`tensor` with `paddings[i][0]` elements before and `paddings[i][1]` after the others along axis i.

    They are `constant_values`, or mirrored at the border: with REFLECT without the outermost element, with SYMMETRIC
    with it.

    Raises:
        ValueError: an axis has too few elements to mirror, or the paddings do not fit the tensor's rank.

    Examples:
        >>> await session.run(af.pad([1, 2], [[1, 2]]))
        array([0, 1, 2, 0, 0], dtype=int32)
    """
    return _pad(tensor, _flat(paddings), mode.upper(), constant_values, name=name)


def _flat(paddings: Any) -> Tensor:
    """The sizes of all pairs, one after the other. ValueError unless they are pairs."""
    given = constant_value(paddings) if isinstance(paddings, Tensor) else paddings
    if given is None or (isinstance(given, (list, tuple)) and any(isinstance(pair, Tensor) for pair in given)):
        made = convert_to_tensor(paddings)
        if not made.shape.is_compatible_with([None, 2]):
            raise ValueError(f"paddings must be [rank, 2], a pair for each axis, not of shape {made.shape}")
        return reshape(made, [-1])
    try:
        pairs = [list(pair) for pair in given]
    except TypeError:
        pairs = [[]]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"paddings must be [rank, 2], a pair for each axis, not {given!r}")
    return convert_to_tensor([item for pair in pairs for item in pair], preferred_dtype=int32)


OPERATORS["pad"] = pad
