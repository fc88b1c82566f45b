"""The parameters of an op, read from its shape rule: data, lists of data, attributes."""

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import numpy as np

from aioflow.graph.convert import TensorLike, constant_value, convert_to_tensor
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.operators import Operand
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, DTypeLike, ShapeLike, Spec, TensorShape, as_dtype, as_shape
from aioflow.tensors.recursion import safe_repr
from aioflow.tensors.shape import Dimension


@dataclasses.dataclass(frozen=True, slots=True)
class Like:
    """Marks data whose Python literals take the dtype of the tensors in the same group."""

    group: str


@dataclasses.dataclass(frozen=True, slots=True)
class Prefer:
    """Marks data whose Python literals have this dtype; `sizes`: the data is small and read on the host."""

    dtype: DType
    sizes: bool = False


T = Annotated[Spec, Like("T")]
"""Data of the dtype that all `T` parameters of the op share."""
Ints = Annotated[Spec, Prefer(dtypes.int32, sizes=True)]
"""A few integers, such as sizes and axes. GPU kernels read them from host memory."""
Indices = Annotated[Spec, Prefer(dtypes.int32)]
"""Any number of integers, such as indices and labels, in the memory of the kernel's device."""


@dataclasses.dataclass(frozen=True, slots=True)
class Param:
    """One parameter of an op."""

    name: str
    role: typing.Literal["tensor", "list", "attr"]
    marker: Like | Prefer | None = None
    convert: Callable[[Any], Any] | None = None


def params_of(rule: Callable[..., Any]) -> tuple[Param, ...]:
    """Return the data and attributes. A parameter called `name` only marks the position of the operation's name."""
    hints = rule.__annotations__  # evaluated, since modules that declare ops do not postpone annotations
    return tuple(_param(name, hints[name]) for name in names_of(rule) if name != "name")


def names_of(rule: Callable[..., Any]) -> list[str]:
    """Return the parameters of a rule, all of which may be passed by position."""
    code = inspect.unwrap(rule).__code__
    return list(code.co_varnames[: code.co_argcount])


OLD_NAMES: Final = {
    "keep_dims": "keepdims",
    "reduction_indices": "axis",
    "dimension": "axis",
    "squeeze_dims": "axis",
    "dim": "axis",
    "input": "input_tensor",
}
"""Deprecated parameter names that TensorFlow 1.15 still accepts."""


def renamed(name: str, first: Any, second: Any) -> Any:
    """Return the argument that is given by one of the two names of a parameter. ValueError if both are given."""
    if first is not None and second is not None:
        raise ValueError(
            f"{name!r} is given by two names, as {safe_repr(first)} and {safe_repr(second)}: leave out the older name"
        )
    return second if first is None else first


_SHOWN_OLD_NAMES: Final = {
    "dimension": ("argmax", "argmin"),
    "squeeze_dims": ("squeeze",),
    "dim": ("softmax", "log_softmax"),
    "input": (),
}
"""The ops that show an old name, where it is not for every reduction."""


def signature_of(op: str, rule: Callable[..., Any]) -> inspect.Signature:
    """How users call the op of that name and rule: what `inspect` and `help` show, and stub files are made from."""
    own = inspect.signature(rule)
    found = {name: p.replace(annotation=_public(p.annotation)) for name, p in own.parameters.items()}
    name = inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=str | None)
    old = [
        found[new].replace(name=given, kind=inspect.Parameter.KEYWORD_ONLY)
        for given, new in OLD_NAMES.items()
        if new in found and ("keepdims" in found if given not in _SHOWN_OLD_NAMES else op in _SHOWN_OLD_NAMES[given])
    ]
    parameters = [*found.values(), *([] if "name" in found else [name]), *old]
    return inspect.Signature(parameters, return_annotation=_returned(own.return_annotation))


def _public(hint: Any) -> Any:
    """What users pass where the rule has `hint`."""
    param = _param("", hint)
    if param.role == "attr":
        return {DType: DTypeLike, TensorShape: ShapeLike}.get(hint, hint)
    return TensorLike if param.role == "tensor" else Sequence[TensorLike]


def _returned(hint: Any) -> Any:
    """What users get where the rule gives `hint`."""
    if hint is None or hint is Spec:
        return Tensor if hint is Spec else Operation
    return types.GenericAlias(tuple, tuple([Tensor if each is Spec else each for each in typing.get_args(hint)]))


def _param(name: str, hint: Any) -> Param:
    if _is_whole(hint):
        return Param(name, "attr", convert=_whole)
    inner, role = hint, "tensor"
    if typing.get_origin(hint) is Sequence:
        inner, role = typing.get_args(hint)[0], "list"
    base, *markers = typing.get_args(inner) if typing.get_origin(inner) is Annotated else (inner,)
    if base is Spec:
        return Param(name, "list" if role == "list" else "tensor", markers[0] if markers else None)
    convert = _CONVERT.get(inner)
    return Param(name, "attr", convert=functools.partial(_each, convert) if convert and role == "list" else convert)


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


_CONVERT: Final[dict[Any, Callable[[Any], Any]]] = {DType: as_dtype, TensorShape: as_shape, str: _text}


def _is_whole(hint: Any) -> bool:
    """Whether values of that hint are integers, lists of them, or None."""
    parts = [part for part in typing.get_args(hint) if part is not types.NoneType]
    return all(_is_whole(part) for part in parts) if parts else hint is int


def _whole(value: Any) -> Any:
    """Integers in arrays, shapes and lists as Python's own."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple, range, TensorShape)):
        return [_whole(item) for item in value]
    return value.__index__() if isinstance(value, Dimension) else value


def _each(convert: Callable[[Any], Any], values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([convert(value) for value in values])


def attribute_of(param: Param, value: Any, dynamic: bool = False) -> Any:
    """Return `value` as an attribute: plain data. A tensor whose value only a run knows is returned if `dynamic`.

    Raises:
        TypeError: only a run knows the value, and not `dynamic`.
    """
    if _holds_tensor(value):
        tensor = convert_to_tensor(value)
        known = constant_value(tensor)
        if known is None and dynamic:
            return tensor
        if known is None:
            raise TypeError(f"attribute {param.name!r} must be known when the graph is built, and is not: {value!r}")
        value = known.tolist()
    return _plain(value if param.convert is None else param.convert(value))


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(issubclass(kind, Operand) for kind in set(map(type, value)))
    return isinstance(value, Operand)


def _plain(value: Any) -> Any:
    """Convert lists to tuples and NumPy numbers to Python's, so that attributes can be hashed, compared and sent."""
    if isinstance(value, (list, tuple)):
        return tuple([_plain(item) for item in value])
    return value.item() if isinstance(value, np.generic) else value
