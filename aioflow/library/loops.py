"""Loops: `while_loop`, with its gradient.

The gradient of a loop is a loop with as many iterations, backwards. The forward loop records the values that the
backward loop needs, one element per iteration, and the backward loop replays them from the end. The gradient of a
capture is the sum over the iterations; for rows of a table, it concatenates the rows of all iterations, and for a
weight it is one product of what all iterations multiplied. The gradient of a replayed list is a record of the backward
loop, so gradients of any order work the same way.

Flattens the nested arguments and results of branches and loops, and restores them.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from aioflow.autodiff.backward import differentiate, tensors_reaching
from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.indexed_slices import IndexedSlices, dense
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.sparse_tensor import SparseTensor
from aioflow.graph.subgraph import Body, BodyGraph, captured_tensors, make_body, trace_body, with_new_shape
from aioflow.kernels.array.constants import constant
from aioflow.kernels.control.structured import completed, either_resource, loop, predicate
from aioflow.kernels.control.tensor_array import tensor_array_concat
from aioflow.kernels.control.tensor_lists import add_lists
from aioflow.kernels.math.arithmetic import add
from aioflow.kernels.math.casting import cast
from aioflow.library.backward_body import BackwardGraph, backward_outline, sizes_of, zeros_for
from aioflow.library.control import with_dependencies
from aioflow.library.ragged.tensor import RaggedTensor, rebuilt, shapes_of_parts, tensors_of
from aioflow.library.stacked_products import Factors, bytes_of, product_of_stacks, stacked_factors
from aioflow.library.tensor_array import TensorArray
from aioflow.tensors import nest
from aioflow.tensors.dtypes import ListSpec, ResourceSpec, Spec, int32
from aioflow.tensors.shape import TensorShape, as_shape


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf: its tensors, and a function that makes another such object of other tensors."""

    kind: str
    tensors: list[Tensor]
    make: Callable[[Sequence[Tensor]], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Leaves:
    """A flattened structure."""

    structure: Any
    leaves: list[Leaf]

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors, in order."""
        return [tensor for leaf in self.leaves for tensor in leaf.tensors]

    def rebuilt(self, tensors: Sequence[Tensor]) -> Any:
        """Return the structure with other tensors."""
        given = iter(tensors)
        made = [leaf.make([next(given) for _ in leaf.tensors]) for leaf in self.leaves]
        return nest.pack_sequence_as(self.structure, made)

    def check_same(self, other: "Leaves", one: str, another: str, of_dtypes: type[Exception] = TypeError) -> None:
        """Raise an error with names for both unless structures, kinds and dtypes are equal: `of_dtypes` for dtypes."""
        try:
            nest.assert_same_structure(self.structure, other.structure)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{one} and {another} differ in structure: {error}") from None
        for index, (mine, theirs) in enumerate(zip(self.leaves, other.leaves, strict=True)):
            if mine.kind != theirs.kind or len(mine.tensors) != len(theirs.tensors):
                raise TypeError(f"value {index} of {one} is {mine.kind}, and of {another} {theirs.kind}")
            for a, b in zip(mine.tensors, theirs.tensors, strict=True):
                if a.dtype is not b.dtype:
                    raise of_dtypes(
                        f"value {index} of {one} has dtype {a.dtype.name} ({a.name}), and of {another} {b.dtype.name} "
                        f"({b.name}): cast one of them"
                    )


def taken_apart(structure: Any, convert: Callable[[Any], Tensor] = convert_to_tensor) -> Leaves:
    """Return the leaves of a structure. `convert` makes tensors of values other than None and composite tensors."""
    return Leaves(structure, [_leaf(value, convert) for value in nest.flatten(structure)])


def _leaf(value: Any, convert: Callable[[Any], Tensor]) -> Leaf:
    if value is None:
        return Leaf("None", [], lambda tensors: None)
    if isinstance(value, Operation):
        return Leaf("a tensor", [with_dependencies([value], constant(True))], lambda tensors: tensors[0])
    if isinstance(value, TensorArray):
        return Leaf("a TensorArray", [value.flow], lambda tensors: value.with_flow(tensors[0]))
    if isinstance(value, SparseTensor):
        parts = [value.indices, value.values, value.dense_shape]
        return Leaf("a SparseTensor", parts, lambda tensors: SparseTensor(*tensors))
    if isinstance(value, RaggedTensor):
        return Leaf("a RaggedTensor", tensors_of(value), lambda tensors: rebuilt(value, tensors))
    if isinstance(value, IndexedSlices):
        parts = [value.values, value.indices, *([] if value.dense_shape is None else [value.dense_shape])]
        return Leaf("IndexedSlices", parts, lambda tensors: IndexedSlices(*tensors))
    return Leaf("a tensor", [convert(value)], lambda tensors: tensors[0])


@transactional
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: TensorLike | None = None,
    return_same_structure: bool = False,
) -> Any:
    """Return the loop variables after applying `body` again and again, as long as `cond` of them is true.

        count, total = af.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + x[i]), [0, 0.0])

    Both functions are called once, now, to build an iteration. They may use all tensors of enclosing graphs. A loop in
    which nothing waits runs one iteration after the other. A loop with operations that wait, such as those of queues,
    runs up to `parallel_iterations` iterations at a time, if they do not depend on each other. Reads and updates of one
    variable run in the order of the iterations.

    A loop over several devices runs as many at a time on each of them. A device that needs nothing of the others is
    ahead of them by at most twice as many; the values it has sent use memory until they are received.

    Args:
        cond: a function of the loop variables that returns one bool.
        body: a function of the loop variables that returns their next values, of the same structure.
        loop_vars: the first values: a list or tuple, nested as you like, of tensors, TensorArrays, SparseTensors and
            RaggedTensors.
        shape_invariants: for each variable the shape that holds in all iterations; by default that of its first value.
            For a SparseTensor it is the shape of its `dense_shape`, for IndexedSlices that of the values, for a
            RaggedTensor that of the whole.
        parallel_iterations: the most iterations that run at a time.
        back_prop: whether the loop has a gradient.
        swap_memory: whether large values kept for the gradient are moved to host memory when a device is short of it.
        name: the name of the operation.
        maximum_iterations: the most iterations, one integer.
        return_same_structure: whether the result has the structure of `loop_vars` even for a single variable.

    Returns:
        The loop variables in the structure of `loop_vars`; a single variable in a list is returned alone.

    Raises:
        TypeError: `cond` or `body` is not a function, or the dtype of a loop variable changes.
        ValueError: there are no loop variables, or the structure or shape of one changes.

    Examples:
        >>> await session.run(af.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), [0, 1]))
        [np.int32(3), np.int32(8)]
    """
    for what, function in (("cond", cond), ("body", body)):
        if not callable(function):
            raise TypeError(f"{what} must be a function of the loop variables, not {function!r}")
    if not isinstance(loop_vars, (list, tuple)) or not nest.flatten(loop_vars):
        raise ValueError(f"loop_vars must be a list or tuple of at least one loop variable, not {loop_vars!r}")
    if not isinstance(parallel_iterations, int) or parallel_iterations < 1:
        raise TypeError(f"parallel_iterations must be an integer of at least 1, not {parallel_iterations!r}")
    with get_default_graph().name_scope(name or "while") as scope:
        first = taken_apart(loop_vars)
        limit = [] if maximum_iterations is None else [_limit(maximum_iterations)]
        outputs = _build_loop(
            scope, first, shape_invariants, limit, cond, body, parallel_iterations, back_prop, swap_memory
        )
        result = first.rebuilt(outputs)
        return result if return_same_structure or len(first.leaves) > 1 else result[0]


plain_loop: Final[Callable[..., Any]] = inspect.unwrap(while_loop)
"""`while_loop` for use in other functions, which undo a failed construction and name it."""


def _limit(maximum: TensorLike) -> Tensor:
    tensor = convert_to_tensor(maximum)
    if not tensor.dtype.is_integer or tensor.spec.rank not in (None, 0):
        raise ValueError(f"maximum_iterations must be one integer, not {tensor.spec}")
    return cast(tensor, int32)


def _build_loop(
    scope: str, first: Leaves, invariants: Any, limit: list[Tensor], cond: Any, body: Any, parallel: int, back: bool,
    swap: bool,
) -> Sequence[Tensor]:  # fmt: skip
    graph = get_default_graph()
    specs = _invariants(first, invariants)
    test, asked_of, asked = _build_body(f"{scope}cond", first, specs, lambda variables: _cond_result(cond(*variables)))
    step, made_of, made = _build_body(
        f"{scope}body", first, specs, lambda variables: _body_results(first, body(*variables))
    )
    _check_shapes(first, specs, made)
    inputs = [graph.adopt(tensor) for tensor in [*limit, *first.tensors]]
    captures = captured_tensors(test, step)
    places = {tensor: len(inputs) + index for index, tensor in enumerate(captures)}
    condition = make_body(test, list(enumerate(asked_of, len(limit))), places, [asked])
    stepping = make_body(step, list(enumerate(made_of, len(limit))), places, made)
    with graph.control_dependencies(dict.fromkeys([*test.waits_for, *step.waits_for])):
        outputs: Sequence[Tensor] = loop(
            [*inputs, *captures], condition, stepping, bool(limit), len(first.tensors), 0, parallel, swap, back,
            name=scope,
        )  # fmt: skip
    return outputs[: len(first.tensors)]


def _build_body(
    name: str, first: Leaves, specs: Sequence[Spec], describe: Callable[[Any], Any]
) -> tuple[BodyGraph, list[Tensor], Any]:
    """Build a body with an argument for each loop variable by calling a function of these."""

    def inside(graph: BodyGraph) -> Any:
        arguments = [graph.argument(spec) for spec in specs]
        graph.starts.update(zip(arguments, first.tensors, strict=True))
        return arguments, describe(first.rebuilt(arguments))

    graph, (arguments, result) = trace_body(get_default_graph(), name, inside)
    return graph, arguments, result


def _cond_result(value: Any) -> Tensor:
    """Return the result of `cond` as a tensor of the body."""
    flat = nest.flatten(value)
    if len(flat) != 1:
        raise ValueError(f"cond must return one bool, not {value!r}")
    tensor = convert_to_tensor(flat[0])
    predicate(tensor.spec, "what cond returns")
    return get_default_graph().adopt(tensor)


def _body_results(first: Leaves, value: Any) -> list[Tensor]:
    """Return the results of `body` as tensors of the body, with the structure and dtypes of the loop variables."""
    made = taken_apart(list(value) if isinstance(value, (list, tuple)) else [value])
    Leaves(list(first.structure), first.leaves).check_same(made, "loop_vars", "what body returns")
    return [get_default_graph().adopt(tensor) for tensor in made.tensors]


def _invariants(first: Leaves, shapes: Any) -> list[Spec]:
    """Return the spec of each loop variable that holds in every iteration."""
    if shapes is None:
        return [spec for leaf in first.leaves for spec in _first_specs(leaf)]
    try:
        given = nest.flatten_up_to(first.structure, shapes)
    except ValueError as error:
        raise ValueError(f"shape_invariants must have a shape for each loop variable: {error}") from None
    return [spec for leaf, shape in zip(first.leaves, given, strict=True) for spec in _invariant(leaf, as_shape(shape))]


def _first_specs(leaf: Leaf) -> list[Spec]:
    """Return the specs of a first value; those of a SparseTensor or RaggedTensor leave its number of elements open."""
    specs = [with_new_shape(_unknowing(tensor.spec)) for tensor in leaf.tensors]
    if leaf.kind == "a RaggedTensor":
        values, rows, *others = specs
        opened = values.with_shape(TensorShape([None]).concatenate(values.shape[1:]))
        return [opened, rows, *[each.with_shape([None]) for each in others]]
    if leaf.kind != "a SparseTensor":
        return specs
    (indices, values, whole), rank = specs, leaf.tensors[0].shape[1].value
    return [indices.with_shape([None, rank]), values.with_shape([None]), whole]


def _unknowing(spec: Spec) -> Spec:
    """Return the spec without a known value, which differs between iterations."""
    return Spec(spec.dtype, spec.shape) if spec.known is not None else spec


def _invariant(leaf: Leaf, shape: TensorShape) -> list[Spec]:
    if leaf.kind == "a SparseTensor":
        rank = shape.with_rank(1)[0].value
        shapes = [TensorShape([None, rank]), TensorShape([None]), TensorShape([rank])]
    elif leaf.kind == "a RaggedTensor":
        shapes = shapes_of_parts(shape, len(leaf.tensors) - 1)
    elif leaf.kind == "IndexedSlices":
        rows = TensorShape(None) if shape.sizes is None else TensorShape(shape.sizes[:1])
        shapes = [shape, rows, TensorShape([shape.ndims])]
    elif any(isinstance(tensor.spec, ResourceSpec) for tensor in leaf.tensors):
        return [tensor.spec for tensor in leaf.tensors]
    else:
        shapes = [shape]
    for tensor, each in zip(leaf.tensors, shapes, strict=False):
        if not each.is_compatible_with(tensor.shape):
            raise ValueError(f"the shape invariant {each} does not hold for the first value {tensor!r}")
    return [Spec(tensor.dtype, TensorShape(each)) for tensor, each in zip(leaf.tensors, shapes, strict=False)]


def _check_shapes(first: Leaves, specs: Sequence[Spec], made: Sequence[Tensor]) -> None:
    for tensor, spec, after in zip(first.tensors, specs, made, strict=True):
        if isinstance(spec, ResourceSpec):
            either_resource(f"loop variable {tensor.name!r}", spec, after.spec)
            _check_size(tensor, spec, after.spec)
        elif not _within(after.shape, spec.shape):
            raise ValueError(
                f"loop variable {tensor.name!r} enters with shape {spec.shape} and has {after.shape} after an "
                f"iteration ({after.name}): give the shape of all iterations by shape_invariants=, or use set_shape"
            )


def _check_size(tensor: Tensor, before: Spec, after: Spec) -> None:
    if isinstance(before, ListSpec) and isinstance(after, ListSpec) and before.size not in (None, after.size):
        raise ValueError(
            f"loop variable {tensor.name!r} enters with {before.size} slots, and has another TensorArray's "
            f"{'unknown number' if after.size is None else after.size} after an iteration"
        )


def _within(shape: TensorShape, invariant: TensorShape) -> bool:
    """Whether every value of the one shape has the other."""
    if invariant.sizes is None:
        return True
    return (
        shape.sizes is not None
        and len(shape.sizes) == len(invariant.sizes)
        and all(wanted is None or size == wanted for size, wanted in zip(shape.sizes, invariant.sizes, strict=True))
    )


# The gradient


loop.gradient_takes_none = True


@loop.gradient
def _(op: Operation, *dys: Tensor | None) -> "list[Tensor | IndexedSlices | None]":
    if not op.attrs["back_prop"]:
        return [None] * len(op.inputs)
    return _Backward(op, dys).gradients()


class _Backward:
    """Builds the loop that is the gradient of another one."""

    def __init__(self, op: Operation, dys: Sequence[Tensor | None]) -> None:
        self._op = op
        self._body: Body = op.attrs["body"]
        self._first: int = op.attrs["limited"]
        self._count: int = op.attrs["variables"]
        self._replays: int = op.attrs["replays"]
        self._dys = dys
        self._argument = dict(zip(self._body.takes, self._body.arguments, strict=True))
        records = op.outputs[self._count + 1 :]
        given = zip(dys[self._count + 1 :], records, strict=False)
        self._records = {index: completed(dy, record) for index, (dy, record) in enumerate(given) if dy is not None}

    def gradients(self) -> list[Tensor | IndexedSlices | None]:
        """Return one gradient or None for each input of the loop."""
        self._active = self._find_active()
        expose = functools.partial(_record, self._op)
        inner, outputs = backward_outline(
            get_default_graph(), self._op, self._body, expose, "body", self._describe, replay=True
        )
        made = self._build(inner, outputs)
        return self._place_gradients(made)

    def _find_active(self) -> list[int]:
        """Return the loop variables with gradients, and all that these are computed from."""
        outputs = self._body.outputs
        active = [index for index in range(self._count) if self._dys[index] is not None]
        ends = [outputs[index] for index in active] + [outputs[self._count + index] for index in self._records]
        rest = [index for index in range(self._count) if index not in active and self._carries(index)]
        found = True
        while found:
            found = False
            for index in list(rest):
                reached = tensors_reaching([self._argument[self._first + index]], ends, ())
                if any(end in reached for end in ends):
                    rest.remove(index)
                    active.append(index)
                    ends.append(outputs[index])
                    found = True
        return sorted(active)

    def _carries(self, index: int) -> bool:
        spec = self._argument[self._first + index].spec
        return spec.dtype.is_differentiable or isinstance(spec, ListSpec)

    def _describe(self, inner: BackwardGraph) -> list[Tensor]:
        """Build one iteration of the backward loop: gradients of the loop variables, sums, and recorded values."""
        outputs = self._body.outputs
        given = [inner.argument(self._spec_of(index)) for index in self._active]
        ys = [outputs[index] for index in self._active]
        seeds = list(given)
        for index, dy in self._records.items():
            end = outputs[self._count + index]
            ys.append(end)
            seeds.append(inner.replayed(dy, end))
        found = differentiate(inner, ys, self._body.arguments, seeds)
        arrived = {i: dx for i, dx in zip(self._body.takes, found, strict=True) if dx is not None}
        captures = self._first + self._count + self._replays
        captured = {i: dx for i, dx in arrived.items() if i >= captures}
        rows = {i: dx for i, dx in captured.items() if isinstance(dx, IndexedSlices) and _is_part(dx)}
        self._rows = {i: (dx.values, dx.indices) for i, dx in rows.items()}
        self._factors = self._find_factors(inner, captured)
        dxs = {i: dense(dx) for i, dx in arrived.items() if i not in {*self._rows, *self._factors}}
        return self._outputs(inner, given, dxs)

    def _find_factors(self, inner: BackwardGraph, captured: dict[int, Any]) -> dict[int, Factors]:
        """Return the factors to list. They take at most as much memory as the values that the forward loop lists."""
        if self._op.attrs["swap_memory"]:
            return {}
        tensors = {i: dx for i, dx in captured.items() if isinstance(dx, Tensor)}
        return stacked_factors(tensors, room=sum(map(bytes_of, inner.replays.values())))

    def _outputs(self, inner: BackwardGraph, given: list[Tensor], dxs: dict[int, Tensor]) -> list[Tensor]:
        names = [self._first + index for index in self._active]
        made = [dxs[i] if i in dxs else zeros_for(self._argument[i]) for i in names]
        listed = self._first + self._count
        self._summed = [i for i in dxs if i >= listed + self._replays]
        self._listed = [i for i in dxs if listed <= i < listed + self._replays]
        sums = [inner.argument(_unknowing(dxs[i].spec)) for i in self._summed]
        made += [_add(total, dxs[i]) for total, i in zip(sums, self._summed, strict=True)]
        self._given = [*given, *sums]
        recorded = [dxs[i] for i in self._listed]
        recorded += [part for parts in (*self._rows.values(), *self._factors.values()) for part in parts]
        return [inner.adopt(tensor) for tensor in [*made, *recorded]]

    def _spec_of(self, index: int) -> Spec:
        """Return the spec of the gradient of a loop variable, which holds in every iteration."""
        mine, made = self._argument[self._first + index].spec, self._body.outputs[index].spec
        if isinstance(made, ListSpec):
            return made
        return (
            Spec(made.dtype, made.shape) if made.shape is mine.shape else with_new_shape(Spec(made.dtype, mine.shape))
        )

    def _build(self, inner: BackwardGraph, outputs: list[Tensor]) -> Sequence[Tensor]:
        op, graph = self._op, get_default_graph()
        given = [(self._dys[index], op.outputs[index]) for index in self._active]
        starts = [zeros_for(end) if dy is None else dy for dy, end in given]
        starts += [zeros_for(op.inputs[index]) for index in self._summed]
        lists = list(inner.replays)
        inputs = [graph.adopt(tensor) for tensor in [op.outputs[self._count], *starts, *lists]]
        captures = captured_tensors(inner)
        places = {tensor: len(inputs) + index for index, tensor in enumerate(captures)}
        own = [*self._given, *inner.replays.values()]
        body = make_body(inner, list(enumerate(own, 1)), places, outputs)
        parallel, swap = op.attrs["parallel_iterations"], op.attrs["swap_memory"]
        made: Sequence[Tensor] = loop(
            [*inputs, *captures], None, body, True, len(starts), len(lists), parallel, swap, name=f"{op.name}_backward"
        )
        return made

    def _place_gradients(self, made: Sequence[Tensor]) -> list[Tensor | IndexedSlices | None]:
        results: list[Tensor | IndexedSlices | None] = [None] * len(self._op.inputs)
        for place, index in enumerate(self._active):
            results[self._first + index] = made[place]
        for place, index in enumerate(self._summed, len(self._active)):
            results[index] = made[place]
        for place, index in enumerate(self._listed, len(self._active) + len(self._summed) + 1):
            results[index] = made[place]
        pairs = [*self._rows, *self._factors]
        gathered = [tensor_array_concat(each)[0] for each in made[len(made) - 2 * len(pairs) :]]
        for index, a, b in zip(pairs, gathered[::2], gathered[1::2], strict=True):
            results[index] = self._whole(index, a, b)
        return results

    def _whole(self, index: int, first: Tensor, second: Tensor) -> Tensor | IndexedSlices:
        """Return the gradient of a capture, given the rows or the factors of all iterations."""
        if index in self._factors:
            return product_of_stacks(first, second)
        return IndexedSlices(first, second, sizes_of(self._op.inputs[index]))


def _is_part(rows: IndexedSlices) -> bool:
    """Whether to keep the gradient as rows: there may be fewer than in the table, and the shape of a row is known."""
    count, whole = rows.values.shape[0].value, rows.shape[0].value
    return rows.values.shape[1:].is_fully_defined() and (count is None or whole is None or count < whole)


def _add(total: Tensor, part: Tensor) -> Tensor:
    return add_lists([total, part]) if isinstance(total.spec, ListSpec) else add(total, part)


def _record(op: Operation, tensor: Tensor) -> Tensor:
    """Return an output of the loop that lists the values of `tensor` in all iterations."""
    attrs = {**op.attrs, "body": op.attrs["body"].with_outputs(tensor)}
    return op.graph.extend(op, attrs, [ListSpec.record(with_new_shape(tensor.spec))])[0]
