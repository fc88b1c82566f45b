"""The walk from ys back to xs that builds gradients.

It first marks the tensors that depend on xs, then finds the operations between these and ys, and differentiates them
from the latest built to the earliest. So all gradients of an operation's outputs are known before the operation is
differentiated. The walk goes over tensors without recursion, in time linear in the operations between.
"""

import contextlib
from collections.abc import Collection, Sequence
from typing import Any, Final

from aioflow.autodiff.aggregate import AggregationMethod, Gradient, aggregate
from aioflow.autodiff.rules import get_gradient_function, stops_gradient
from aioflow.graph import scopes
from aioflow.graph.graph import Graph
from aioflow.graph.indexed_slices import IndexedSlices, dense
from aioflow.graph.operation import Operation, Tensor, describe_line
from aioflow.kernels.array.constants import identity_n, zeros_like
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import ListSpec, ResourceSpec, Spec

_KEEPS_SLICES: Final = frozenset({"identity", "lossy", "read_variable"})
"""Ops that pass the gradient of their output on unchanged, as IndexedSlices too."""


def gradient_spec(tensor: Tensor) -> Spec | None:
    """Return the Spec of the gradient of `tensor`: of a list a list, of a handle its only item, else None."""
    spec = tensor.spec
    if spec.dtype is not dtypes.resource or isinstance(spec, ListSpec):
        return spec
    return spec.items[0] if isinstance(spec, ResourceSpec) and len(spec.items) == 1 else None


def _has_gradient(tensor: Tensor) -> bool:
    """Whether the tensor, the value of the handle, or the elements of the list have a differentiable dtype."""
    spec = tensor.spec
    while isinstance(spec, ListSpec):
        spec = spec.element
    return spec.dtype.is_differentiable or spec.dtype is dtypes.resource


def tensors_reaching(xs: Sequence[Tensor], ys: Sequence[Tensor], stopped: Collection[Tensor]) -> set[Tensor]:
    """Return `xs` and the tensors from which gradients flow to one of them, without those built after all `ys`."""
    latest = max((y.op.id for y in ys), default=-1)
    reached = set(xs)
    waiting = list(reached)
    seen: set[Operation] = set()
    while waiting:
        tensor = waiting.pop()
        for op in tensor.consumers() if _has_gradient(tensor) else ():
            if op.id > latest or op in seen:
                continue
            seen.add(op)
            if not stops_gradient(op):
                found = [t for t in op.outputs if t not in reached and _has_gradient(t) and t not in stopped]
                reached.update(found)
                waiting.extend(found)
    return reached


def operations_between(
    ys: Sequence[Tensor], reached: Collection[Tensor], stopped: Collection[Tensor]
) -> list[Operation]:
    """Return the operations to differentiate, the latest built first, so that each comes after all its consumers."""
    found: set[Operation] = set()
    waiting = [y for y in ys if y in reached and y not in stopped]
    while waiting:
        op = waiting.pop().op
        if op in found or stops_gradient(op):
            continue
        inputs = [tensor for tensor in op.inputs if tensor in reached]
        if inputs:
            found.add(op)
            waiting.extend(tensor for tensor in inputs if tensor not in stopped)
    return sorted(found, key=lambda op: op.id, reverse=True)


def differentiate(
    graph: Graph,
    ys: Sequence[Tensor],
    xs: Sequence[Tensor],
    grad_ys: Sequence[Gradient],
    stopped: Collection[Tensor] = frozenset(),
    method: int = AggregationMethod.DEFAULT,
    colocate: bool = False,
    gate: bool = False,
) -> list[Gradient | None]:
    """Build the gradients of `xs` in `graph` from those of `ys`; None for an x that no y depends on."""
    reached = tensors_reaching(xs, ys, stopped)
    walk = BackwardWalk(graph, reached, method, colocate, gate)
    walk.seed(ys, grad_ys)
    for op in operations_between(ys, reached, stopped):
        walk.differentiate(op)
    return [walk.gradient_of(x) for x in xs]


class BackwardWalk:
    """The gradients that have arrived at each tensor so far."""

    def __init__(self, graph: Graph, reached: Collection[Tensor], method: int, colocate: bool, gate: bool) -> None:
        self._graph = graph
        self._reached = reached
        self._method = method
        self._colocate = colocate
        self._gate = gate
        self._arrived: dict[Tensor, list[Gradient]] = {}

    def seed(self, ys: Sequence[Tensor], grad_ys: Sequence[Gradient]) -> None:
        """Record the gradients of `ys`."""
        for y, gradient in zip(ys, grad_ys, strict=True):
            if y in self._reached:
                self._arrived.setdefault(y, []).append(gradient)

    def gradient_of(self, tensor: Tensor) -> Gradient | None:
        """Return the sum of the gradients that have arrived at `tensor`, None if there are none."""
        arrived = self._arrived.get(tensor)
        if arrived is None:
            return None
        if len(arrived) > 1:
            arrived[:] = [self._sum(tensor, arrived)]
        return arrived[0]

    def _sum(self, tensor: Tensor, arrived: Sequence[Gradient]) -> Gradient:
        with scopes.change_scope(self._graph, origin=tensor.op), self._device_scope(tensor.op):
            total = aggregate(self._graph, arrived, tensor, self._method)
        expected = gradient_spec(tensor)
        if isinstance(total, Tensor) and any(expected and part.shape is expected.shape for part in arrived):
            _take_shape(total, tensor)
        return total

    def differentiate(self, op: Operation) -> None:
        """Add the gradients of the inputs of `op`, computed from those that have arrived at its outputs."""
        arrived = [self.gradient_of(output) for output in op.outputs]
        if all(gradient is None for gradient in arrived):
            return
        rule = get_gradient_function(op)
        assert rule is not None
        with self._name_scope(op), self._device_scope(op):
            dys = [self._complete(output, dy) for output, dy in zip(op.outputs, arrived, strict=True)]
            first = self._graph.version
            try:
                dxs = _check_result(op, rule(op, *dys), self._reached)
            except Exception as error:
                error.add_note(f"in the gradient of {op.name!r} ({op.type}), built at {describe_line(op)}")
                raise
            _refine(op, dxs, first)
            self._add_to_inputs(op, self._gate_together(dxs) if self._gate else dxs)

    def _name_scope(self, op: Operation) -> contextlib.AbstractContextManager[Any]:
        return scopes.change_scope(self._graph, name=self._graph.unique_name(f"{op.name}_grad"), origin=op)

    def _device_scope(self, op: Operation) -> contextlib.AbstractContextManager[Any]:
        return self._graph.colocate_with(op) if self._colocate else contextlib.nullcontext()

    def _complete(self, output: Tensor, dy: Gradient | None) -> Gradient | None:
        """Return `dy` as rules take it: dense, and zeros if no gradient arrived at a differentiable output."""
        if dy is None:
            none = output.op.definition.gradient_takes_none or not output.dtype.is_differentiable
            return None if none else zeros_like(output)
        keeps = output.op.type in _KEEPS_SLICES and output.op.gradient_override is None
        return dy if keeps else dense(dy, output)

    def _gate_together(self, dxs: Sequence[Gradient | None]) -> list[Gradient | None]:
        """Make each of `dxs` available only when all are computed."""
        if sum(dx is not None for dx in dxs) < 2:
            return list(dxs)
        with scopes.change_scope(self._graph, devices=(), colocation=()):
            parts = [part.values if isinstance(part, IndexedSlices) else part for part in dxs if part is not None]
            gated = iter(identity_n(parts))
        return [None if dx is None else _with_values(dx, next(gated)) for dx in dxs]

    def _add_to_inputs(self, op: Operation, dxs: Sequence[Gradient | None]) -> None:
        for tensor, dx in zip(op.inputs, dxs, strict=True):
            if dx is not None and tensor in self._reached:
                self._arrived.setdefault(tensor, []).append(dx)


def _with_values(gradient: Gradient, values: Tensor) -> Gradient:
    if isinstance(gradient, Tensor):
        return values
    return IndexedSlices(values, gradient.indices, gradient.dense_shape)


def _check_result(op: Operation, result: Any, reached: Collection[Tensor]) -> Sequence[Gradient | None]:
    """Return one gradient or None per input. Raises if a gradient's dtype or shape does not fit its input."""
    dxs = result if isinstance(result, (list, tuple)) else (result,)
    if len(dxs) != len(op.inputs):
        raise ValueError(f"{len(dxs)} gradients were built for the {len(op.inputs)} inputs of {op.name!r}")
    for index, (tensor, dx) in enumerate(zip(op.inputs, dxs, strict=True)):
        if dx is not None and tensor in reached:
            _check(f"input {index} of {op.name!r}", tensor, dx)
    return dxs


def _check(what: str, tensor: Tensor, dx: Any) -> None:
    if not isinstance(dx, (Tensor, IndexedSlices)):
        raise TypeError(f"the gradient of {what} is neither a Tensor nor IndexedSlices: {dx!r}")
    expected = gradient_spec(tensor)
    if expected is None:
        return
    given = dx.spec if isinstance(dx, Tensor) else Spec(dx.dtype, dx.shape)
    one, other = expected, given
    while isinstance(one, ListSpec) and isinstance(other, ListSpec):
        one, other = one.element, other.element
    alike = isinstance(one, ListSpec) == isinstance(other, ListSpec) and other.dtype is one.dtype
    if not alike or not other.shape.is_compatible_with(one.shape):
        raise ValueError(f"{what} is {expected}, and its gradient is {given}")


def _refine(op: Operation, dxs: Sequence[Gradient | None], first: int) -> None:
    """Give new gradients the known shapes of their inputs.

    Gradients built earlier are left alone: one that is only passed on may have a wider shape than the input.
    """
    for tensor, dx in zip(op.inputs, dxs, strict=True):
        if isinstance(dx, Tensor) and dx.op.id >= first:
            _take_shape(dx, tensor)


def _take_shape(gradient: Tensor, tensor: Tensor) -> None:
    """Merge the known shape of `tensor` into that of `gradient`, as the same object if nothing more is known."""
    expected = gradient_spec(tensor)
    if expected is not None and gradient.shape is not expected.shape:
        whole = expected.shape.merge_with(gradient.shape)
        gradient.spec = Spec(gradient.dtype, expected.shape if whole == expected.shape else whole)
