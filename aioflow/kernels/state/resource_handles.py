"""Live objects behind handles: found in a container by kind and name, or made."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, Self, TypeVar

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.kernels.context import Context
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import DType, ResourceSpec, Spec, TensorShape, as_dtype


class Live(Protocol):
    """The object that a handle refers to."""

    @property
    def signature(self) -> Any:
        """The attributes of the handle that it was made for."""

    def release(self) -> None:
        """The container was reset or its session closed."""


L = TypeVar("L", bound=Live)
_PLACE = ("container", "shared_name")


def opened(ctx: Context, node: NodeView, kind: type[L], make: Callable[[str], L]) -> L:
    """The object of a handle, made at first use. InvalidArgumentError if it exists with other attributes."""
    attrs = node.attrs
    name = attrs["shared_name"] or node.name
    live = ctx.resources.container(attrs["container"]).lookup_or_create(kind, name, lambda: make(name))
    if live.signature is not attrs:
        different = [
            f"{key}={_plain(value)}, not {_plain(attrs[key])}"
            for key, value in live.signature.items()
            if key not in _PLACE and value != attrs[key]
        ]
        if different:
            raise errors.InvalidArgumentError(f"{kind.__name__} {name!r} is shared with {'; '.join(different)}")
    return live


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    return value.name if isinstance(value, DType) else str(value)


class LiveSpec(ResourceSpec):
    """A handle to one kind of live object, which holds things of the Specs `items`."""

    __slots__ = ()
    kind: ClassVar[str] = "a live object"

    @classmethod
    def check(cls, spec: Spec, count: int | None = None) -> Self:
        """`spec` as such a handle. TypeError if it is not one."""
        if not isinstance(spec, cls):
            raise TypeError(f"a handle to {cls.kind} is needed, not {spec}")
        return spec


def components(types: Sequence[DType], shapes: Sequence[TensorShape]) -> tuple[Spec, ...]:
    """The Specs of the components of an element; without shapes they may have any."""
    if not types:
        raise ValueError("an element has at least one component, and no dtypes are given")
    if shapes and len(shapes) != len(types):
        raise ValueError(f"{len(shapes)} shapes were given for {len(types)} components")
    given = [TensorShape(shape) for shape in shapes] or [TensorShape(None)] * len(types)
    specs = tuple([Spec(as_dtype(dtype), shape) for dtype, shape in zip(types, given, strict=True)])
    if any(spec.dtype is dtypes.resource for spec in specs):
        raise TypeError("components are tensors, not resources")
    return specs


def check_component(spec: Spec, item: Spec, what: str) -> None:
    """TypeError or ValueError if a tensor like `spec` cannot be a component like `item`."""
    if spec.dtype is not item.dtype:
        raise TypeError(f"{what} is {spec.dtype.name}, and must be {item.dtype.name}")
    if not spec.shape.is_compatible_with(item.shape):
        raise ValueError(f"{what} must have shape {item.shape}, not {spec.shape}")


def again(item: Spec) -> Spec:
    """The Spec of a further element like `item`: a fresh Spec, since open sizes may differ between elements."""
    return item if item.shape.is_fully_defined() else Spec(item.dtype, TensorShape(item.shape.sizes))
