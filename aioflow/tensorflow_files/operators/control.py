"""Control flow: the primitives of TensorFlow 1, and branches, loops and calls of TensorFlow 2."""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.control import control_flow
from aioflow.kernels.control.assertions import Assert
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.comparison import not_equal
from aioflow.library.branches import cond, switch_case
from aioflow.library.loops import while_loop
from aioflow.tensorflow_files.call import Call
from aioflow.tensorflow_files.references import Reference, Value, value_of
from aioflow.tensorflow_files.registry import operator, same
from aioflow.tensors import dtypes

same("LoopCond=loop_cond NextIteration=next_iteration Exit=exit ControlTrigger=control_trigger")


@operator("Switch", results="output_false output_true")
def _(call: Call, data: Tensor, predicate: Tensor) -> tuple[Tensor, ...]:
    return control_flow.switch(data, predicate, name=call.name)


@operator("RefSwitch", results="output_false output_true", references=True)
def _(call: Call, data: Value, predicate: Value) -> tuple[Value, ...]:
    """A choice of a variable: its value is read on the branch."""
    handle = data.handle if isinstance(data, Reference) else data
    return tuple([Reference(each) for each in control_flow.switch(handle, value_of(predicate), name=call.name)])


@operator("Merge", results="output value_index")
def _(call: Call, *inputs: Tensor | None) -> tuple[Tensor, ...]:
    """The first live input. An input from the next iteration is connected when it is there."""
    there = [each for each in inputs if each is not None]
    return control_flow.merge([there[0] if each is None else each for each in inputs], name=call.name)


def _enter(call: Call, data: Tensor) -> Tensor:
    name, constant = call.text("frame_name"), call.flag("is_constant", False)
    return control_flow.enter(data, name, constant, call.integer("parallel_iterations", 10), name=call.name)


@operator("Enter")
def _(call: Call, data: Tensor) -> Tensor:
    return _enter(call, data)


@operator("RefEnter", references=True)
def _(call: Call, data: Value) -> Value:
    handle = data.handle if isinstance(data, Reference) else data
    assert handle is not None
    return Reference(_enter(call, handle))


@operator("Assert")
def _(call: Call, condition: Tensor, *data: Tensor) -> Operation:
    return Assert(condition, list(data), call.integer("summarize", 3), name=call.name)


# Functions


def _truth(value: Tensor) -> Tensor:
    """A condition as TensorFlow takes it: a number is true unless it is 0."""
    if value.dtype is dtypes.bool_:
        return value
    return not_equal(value, cast(0, value.dtype))


@operator("PartitionedCall", "StatefulPartitionedCall")
def _(call: Call, *inputs: Tensor) -> Any:
    return call.function(call.called("f"), inputs)


@operator("If", "StatelessIf")
def _(call: Call, predicate: Tensor, *inputs: Tensor) -> Any:
    def branch(name: str) -> Any:
        return lambda: call.function(call.called(name), inputs)

    return cond(_truth(predicate), branch("then_branch"), branch("else_branch"), strict=True)


@operator("Case", "StatelessCase")
def _(call: Call, index: Tensor, *inputs: Tensor) -> Any:
    def branch(name: str) -> Any:
        return lambda: call.function(name, inputs)

    made = switch_case(index, [branch(name) for name in call.names("branches")])
    return made if isinstance(made, (list, tuple, Operation)) else [made]


@operator("While", "StatelessWhile")
def _(call: Call, *inputs: Tensor) -> list[Tensor]:
    """A loop. What no iteration changes, as the handle of a variable, stays outside of it."""
    fixed = call.invariant(call.called("body"))
    places = [place for place, same in enumerate(fixed) if not same]

    def all_of(changing: Sequence[Tensor]) -> list[Tensor]:
        found = [*inputs]
        for place, tensor in zip(places, changing, strict=True):
            found[place] = tensor
        return found

    def condition(*changing: Tensor) -> Tensor:
        return _truth(call.function(call.called("cond"), all_of(changing))[0])

    def body(*changing: Tensor) -> list[Tensor]:
        results = call.function(call.called("body"), all_of(changing))
        return [results[place] for place in places]

    limit = call.integer("parallel_iterations", 10)
    start = [inputs[place] for place in places]
    return all_of(while_loop(condition, body, start, _open(call, start, places), limit, return_same_structure=True))


def _open(call: Call, start: Sequence[Tensor], places: Sequence[int]) -> Any:
    """The shapes that hold in every iteration, by the attribute of the loop; those at the start if it has none."""
    shapes = call.shapes("output_shapes")
    if not shapes:
        return None
    pairs = zip(start, places, strict=True)
    return [each.shape if each.dtype is dtypes.resource else shapes[place] for each, place in pairs]
