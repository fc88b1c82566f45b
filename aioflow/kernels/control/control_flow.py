"""The primitives of control flow [P15 section 4.4], from which `af.cond` and `af.while_loop` build their graphs.

A value on a branch that is not taken is dead. An operation that reads a dead value, or has a control input from a dead
operation, is dead itself and does not run. `switch` makes values dead, `merge` forwards the live one. A loop is a
frame, entered by `enter` and left by `exit`; its operations run once in every iteration, and `next_iteration` passes a
value to the next one. A conditional:

    no, yes = af.switch(x, p)
    y, branch = af.merge([af.negative(no), af.square(yes)])

A loop, which closes its cycle at the end:

    first = af.enter(n, "loop")
    count, _ = af.merge([first, first])
    done, going = af.switch(count, af.loop_cond(count < af.enter(limit, "loop", is_constant=True)))
    count.op.update_input(1, af.next_iteration(going + 1))
    result = af.exit(done)

A value from outside the loop comes in through `enter`, in the first iteration, or in every iteration if it is
constant; constants and variables need no `enter`. An operation of the loop that reads no value of the loop needs a
control input from inside. A call that runs hand-written primitives is not optimised, and its operations on one variable
are not ordered: add control edges. `af.cond` and `af.while_loop` handle all that, and have gradients.
"""

import bisect
from collections.abc import Sequence
from typing import Final

import numpy as np

from aioflow.graph.op import T, op
from aioflow.graph.operation import METHODS, Operation, Tensor
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import Array, DeviceKind, Namespace, Spec, TensorShape

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU

PRIMITIVES: Final = frozenset(
    {"switch", "merge", "enter", "exit", "next_iteration", "loop_cond", "control_trigger"},
)
"""The types of the operations that the executor runs itself: it tracks dead values and iterations."""


class Dead:
    """The placeholder for a dead value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<dead>"


DEAD: Final = Dead()


def _elsewhere(spec: Spec) -> Spec:
    """`spec` for another iteration: equal, but open sizes may differ there."""
    if spec.dtype is dtypes.resource:
        return spec
    return Spec(spec.dtype, spec.shape if spec.shape.is_fully_defined() else TensorShape(spec.sizes))


@op(stateful=True)
def switch(data: Spec, pred: Spec) -> tuple[Spec, Spec]:
    """(output_false, output_true): `data` at the one that the truth `pred` chooses, while the other is dead.

    A control edge from it is not dead: to make operations depend on the choice, let them depend on an `af.identity`
    of one of the outputs.

    Examples:
        >>> off, on = af.switch(af.constant(2.0), af.constant(True))
        >>> value, index = af.merge([off * 10.0, on + 1.0])
        >>> await session.run([value, index])
        [np.float32(3.0), np.int32(1)]
    """
    if pred.dtype is not dtypes.bool_:
        raise TypeError(f"pred is the truth of something, of dtype bool, not {pred.dtype.name}")
    pred.with_rank(0, "pred")
    return data, data


switch.on_host("pred")


@switch.kernel(CPU, GPU)
def _(xp: Namespace, data: Array, pred: Array) -> tuple[Array, Array]:
    return (DEAD, data) if pred else (data, DEAD)


@op(stateful=True)
def merge(inputs: Sequence[T]) -> tuple[Spec, Spec]:
    """(output, value_index): the first live input to arrive, and its number; later inputs are ignored.

    It does not wait for the others. It is dead if all inputs are dead; in a loop, if the value that enters is dead.

    Examples:
        >>> off, on = af.switch(af.constant(2.0), af.constant(False))
        >>> value, index = af.merge([off * 10.0, on + 1.0])
        >>> await session.run([value, index])
        [np.float32(20.0), np.int32(0)]
    """
    if not inputs:
        raise ValueError("merge needs at least one input")
    first = inputs[0].same_dtype(*inputs[1:])
    return _common(first, inputs), Spec(dtypes.int32, TensorShape.scalar())


def _common(first: Spec, inputs: Sequence[Spec]) -> Spec:
    """The most specific Spec that is true of all inputs."""
    if first.dtype is dtypes.resource:
        return first
    shape = first.shape
    for each in inputs[1:]:
        shape = shape.most_specific_compatible_shape(each.shape)
    return _elsewhere(Spec(first.dtype, shape))


merge.on_host(outputs=(1,))


@merge.kernel(CPU, GPU)
def _(xp: Namespace, inputs: Sequence[Array]) -> tuple[Array, Array]:
    found = ((value, np.int32(index)) for index, value in enumerate(inputs) if value is not DEAD)
    return next(found, (DEAD, DEAD))


@op(stateful=True)
def enter(data: Spec, frame_name: str, is_constant: bool = False, parallel_iterations: int = 10) -> Spec:
    """`data` in the first iteration of the frame of that name, or in every iteration if `is_constant`.

    All that enters one frame comes from the same place. At most `parallel_iterations` of its iterations are under way
    at the same time: the fewest that any `enter` of the frame which is not constant asks for.

    Examples:
        >>> x = af.enter(af.constant(3.0), "frame") * af.enter(2.0, "frame", is_constant=True)
        >>> await session.run(af.exit(x))
        np.float32(6.0)
    """
    if not isinstance(frame_name, str) or not frame_name:
        raise ValueError(f"frame_name is a text that is not empty, not {frame_name!r}")
    if not isinstance(parallel_iterations, int) or parallel_iterations < 1:
        raise ValueError(f"parallel_iterations is a positive integer, not {parallel_iterations!r}")
    return data


@op(stateful=True)
def exit(data: Spec) -> Spec:
    """`data` outside of the frame: of the iteration in which it is not dead, which for a loop is the last.

    Examples:
        >>> x = af.enter(af.constant(3.0), "frame") + af.enter(2.0, "frame", is_constant=True)
        >>> await session.run(af.exit(x))
        np.float32(5.0)
    """
    return _elsewhere(data)


@op(stateful=True)
def next_iteration(data: Spec) -> Spec:
    """`data` in the next iteration of the frame; nothing if it is dead, which ends the loop.

    Examples:
        >>> count, _ = af.merge([af.enter(0, "loop")] * 2)
        >>> last, going = af.switch(count, af.loop_cond(count < 5))
        >>> count.op.update_input(1, af.next_iteration(going + 1))
        >>> await session.run(af.exit(last))
        np.int32(5)
    """
    return _elsewhere(data)


@op(stateful=True)
def loop_cond(input: Spec) -> Spec:
    """`input`, the bool that decides whether the loop continues, as the predicate of the loop's switches.

    Examples:
        >>> count, _ = af.merge([af.enter(0, "loop")] * 2)
        >>> last, going = af.switch(count, af.loop_cond(count < 5))
        >>> count.op.update_input(1, af.next_iteration(going + 1))
        >>> await session.run(af.exit(last))
        np.int32(5)
    """
    if input.dtype is not dtypes.bool_:
        raise TypeError(f"input is the truth of something, of dtype bool, not {input.dtype.name}")
    return input.with_rank(0, "input")


@op(stateful=True)
def control_trigger() -> None:
    """Does nothing, after its control inputs; it runs even if they are dead, and its successors are live.

    Examples:
        >>> v = af.Variable(1)
        >>> await session.run(v.initializer)
        >>> with af.control_dependencies([v.assign_add(1), af.no_op()]):
        ...     done = af.control_trigger()
        >>> await session.run(done)
        >>> await session.run(v)
        np.int32(2)
    """


loop_cond.on_host("input", outputs=True)
control_trigger.kernel(CPU, GPU)(lambda xp: None)
for _made in (enter, exit, next_iteration, loop_cond):
    _made.kernel(CPU, GPU)(lambda xp, data: data)
for _op in (switch, merge, enter, exit, next_iteration, loop_cond):

    @_op.gradient
    def _(op: Operation, *dy: Tensor) -> Tensor:
        raise LookupError(
            f"gradients do not flow through {op.name!r} ({op.type}), a primitive of control flow: "
            "use af.cond or af.while_loop"
        )


control_trigger.no_gradient("it has no inputs")


# Cycles


def _update_input(operation: Operation, index: int, tensor: Tensor) -> None:
    """Let an input of a merge come from a next_iteration: see `Operation.update_input`."""
    graph = operation.graph
    if graph.finalized:
        raise RuntimeError(f"{operation.name!r} cannot be changed: the graph is finalized")
    with graph.transaction():
        _check_back_edge(operation, index, graph.adopt(tensor))
        before = operation.inputs
        operation.inputs = (*before[:index], tensor, *before[index + 1 :])
        old, new = before[index]._consumers, tensor._consumers
        place, slot = old.index(operation), bisect.bisect(new, operation.id, key=lambda consumer: consumer.id)
        del old[place]
        new.insert(slot, operation)

        def undo() -> None:
            operation.inputs = before
            del new[slot]
            old.insert(place, operation)

        graph.on_failure(undo)
        graph.memo.clear()


def _check_back_edge(operation: Operation, index: int, tensor: Tensor) -> None:
    """ValueError or TypeError unless the tensor may become an input of a merge that was built before it."""
    if operation.type != "merge" or tensor.op.type != "next_iteration":
        raise ValueError(
            f"only an input of a merge can be replaced, and only by the output of a next_iteration: {operation.name!r} "
            f"is a {operation.type}, and {tensor.name!r} comes from a {tensor.op.type}"
        )
    if not 0 <= index < len(operation.inputs):
        raise ValueError(f"{operation.name!r} has {len(operation.inputs)} inputs and therefore no input {index}")
    made = operation.outputs[0].spec
    if tensor.dtype is not made.dtype:
        raise TypeError(f"{operation.name!r} is of dtype {made.dtype.name}, and {tensor.name!r} {tensor.dtype.name}")
    if made.shape.most_specific_compatible_shape(tensor.shape).sizes != made.sizes:
        raise ValueError(
            f"the loop changes the shape {made.shape} of {operation.name!r} to {tensor.shape}: give the value "
            "that enters the loop a shape that is true of every iteration, by af.placeholder_with_default"
        )


METHODS["update_input"] = _update_input
