"""A kernel: the function that computes an op on one kind of device, and the part of a node that it may read."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from aioflow.graph.operation import Attrs
from aioflow.tensors.dtypes import Array, DeviceKind, DType, Namespace, Spec, string
from aioflow.tensors.object_arrays import move_positions

if TYPE_CHECKING:
    from aioflow.graph.op import Op


class NodeView(Protocol):
    """The part of a node that a kernel may read before a run; see `Kernel.bind`."""

    @property
    def name(self) -> str:
        """The operation's name."""

    @property
    def attrs(self) -> Attrs:
        """Its attributes."""

    @property
    def input_specs(self) -> Sequence[Spec]:
        """The Specs of its inputs."""

    @property
    def output_specs(self) -> Sequence[Spec]:
        """The Specs of its outputs."""

    def constant(self, index: int) -> Array | None:
        """Return the value of an input if the plan knows it, else None."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """The function that computes an op on one kind of device.

    Attributes:
        out: the kernel can write into `out=`, an array of the result's shape and dtype, which may be an input.
        fresh: the results never share memory with the inputs, and the kernel keeps no reference to them.
        binds: the function takes (xp, node) and returns a function of the inputs.
        context: the first parameter is the Context of the call instead of the array namespace.
        asynchronous: the kernel is an `async def`.
        when: called when a kernel is chosen; returns whether this process can use the kernel. None: always.
        scalar: a Python expression that gives the kernel's bits for NumPy scalars of float32, float64, int32, int64 and
            bool, with `{0}`, `{1}` ... for the inputs and `{type}` for the NumPy type of the result; None without one.
        fast: its results differ from those of the op's other kernels, by 4 units in the last place at most. Only
            `Config(fast_math=True)` chooses it.
    """

    function: Callable[..., Any]
    kind: DeviceKind
    out: bool
    fresh: bool
    binds: bool
    dtypes: frozenset[DType] | None
    priority: int
    when: Callable[[], bool] | None = None
    scalar: str | None = None
    fast: bool = False

    @property
    def context(self) -> bool:
        """Whether the first parameter is the Context of the call."""
        return self.function.__code__.co_varnames[:1] == ("ctx",)

    @property
    def asynchronous(self) -> bool:
        """Whether it is an `async def`."""
        return inspect.iscoroutinefunction(self.function)

    def bind(self, op: "Op[Any]", node: NodeView, xp: Namespace) -> Callable[..., Any]:
        """Return the kernel as a function of the inputs (after the Context, if it takes one) of this node."""
        call = self._bound(op, node, xp)
        return move_positions(call, [spec.dtype is string for spec in node.input_specs]) if op.moves else call

    def _bound(self, op: "Op[Any]", node: NodeView, xp: Namespace) -> Callable[..., Any]:
        if self.binds:
            return op.grouped(self.function(xp, node))
        wanted = inspect.getfullargspec(self.function).kwonlyargs
        attrs = {name: node.attrs[name] for name in wanted if name in node.attrs}
        if "node" in wanted:
            attrs["node"] = node
        if self.context:
            return op.grouped(functools.partial(self.function, **attrs) if attrs else self.function, skip=1)
        return op.grouped(functools.partial(self.function, xp, **attrs))
