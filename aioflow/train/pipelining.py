"""Pipelines: a model whose stages are on different devices, and the parts of a batch move through them.

While one stage computes a micro-batch, the next one can compute the one before. Control edges on a stage's own device
set the order of its work; only values travel between devices. Each stage adds up the gradients of the micro-batches, so
that a step updates the variables by the gradients of the whole batch [Huang and others 2019, section 2.2].
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from aioflow.autodiff.aggregate import AggregationMethod, aggregate
from aioflow.autodiff.gradients import gradients
from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.indexed_slices import IndexedSlices, dense
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.concat import concat, split, unstack
from aioflow.kernels.array.constants import constant, identity
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.control.assertions import assert_equal, assert_greater_equal
from aioflow.kernels.math.arithmetic import add_n
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.reduction import reduce_sum
from aioflow.library.control import control_dependencies, device, group, name_scope
from aioflow.library.templates import make_template
from aioflow.tensors import dtypes


class Turn(NamedTuple):
    """One unit of work of a stage: one micro-batch forward or backward."""

    forward: bool
    micro_batch: int

    def __str__(self) -> str:
        return f"{'F' if self.forward else 'B'}{self.micro_batch}"


Schedule: TypeAlias = list[list[Turn]]
"""For each stage its work in order."""


def gpipe(stages: int, micro_batches: int) -> Schedule:
    """Run all micro-batches forward, then all backward [Huang and others 2019, section 2.2].

    Each stage keeps the activations of all micro-batches for the backward pass.
    """
    turns = [Turn(forward, number) for forward in (True, False) for number in range(micro_batches)]
    return [list(turns) for _ in range(stages)]


def one_forward_one_backward(stages: int, micro_batches: int) -> Schedule:
    """Run each micro-batch backward as soon as possible, and others forward in between [Narayanan 2021, section 2.2].

    It takes as long as `gpipe`, but the first of `n` stages keeps the activations of only `n` micro-batches, and each
    later stage fewer, however many micro-batches there are.
    """
    found = []
    for stage in range(stages):
        ahead = min(stages - stage - 1, micro_batches)
        turns = [Turn(True, number) for number in range(ahead)]
        for number in range(micro_batches):
            turns += [Turn(True, number + ahead)] if number + ahead < micro_batches else []
            turns.append(Turn(False, number))
        found.append(turns)
    return found


SCHEDULES: Final[Mapping[str, Callable[[int, int], Schedule]]] = {"1f1b": one_forward_one_backward, "gpipe": gpipe}


def chart(schedule: Schedule) -> list[dict[int, Turn]]:
    """Return the work of each stage at each time, if every unit takes one time unit: stages wait for their neighbours.

    Forward work needs the same micro-batch from the stage before; backward work needs it from the stage after.
    """
    left = [list(turns) for turns in schedule]
    done: set[tuple[int, Turn]] = set()
    times = []
    while any(left):
        now = {
            stage: turns[0] for stage, turns in enumerate(left) if turns and _is_ready(stage, turns[0], done, len(left))
        }
        if not now:
            raise ValueError(f"the stages wait for each other, before {[str(turns[0]) for turns in left if turns]}")
        for stage in now:
            left[stage].pop(0)
        done.update(now.items())
        times.append(now)
    return times


def _is_ready(stage: int, turn: Turn, done: set[tuple[int, Turn]], stages: int) -> bool:
    if turn.forward:
        return stage == 0 or (stage - 1, turn) in done
    return (stage, Turn(True, turn.micro_batch)) in done and (stage == stages - 1 or (stage + 1, turn) in done)


def in_order(schedule: Schedule) -> Sequence[tuple[int, Turn]]:
    """Return all work with its stages, each unit after those it needs."""
    return [each for now in chart(schedule) for each in now.items()]


Gradient: TypeAlias = Tensor | IndexedSlices | None


class Stage(NamedTuple):
    """A part of a model.

    Attributes:
        device: the device of its variables and operations.
        build: a function from its inputs to its outputs: a tensor or several, with a row for each example. It is called
            for each micro-batch; the first call creates the variables, by `af.get_variable`.

    Examples:
        >>> stage = af.train.Stage("/cpu:0", lambda x: x * 2.0)
        >>> stage.device
        '/cpu:0'
    """

    device: str | DeviceSpec
    build: Callable[..., Any]


class Pipelined(NamedTuple):
    """The results of a batch in a pipeline.

    Attributes:
        loss: the mean loss over all examples, on the last stage.
        outputs: the outputs of the last stage for all examples, on that stage.
        grads_and_vars: the variables with the gradients of the loss, for `apply_gradients`.

    Examples:
        >>> v = af.Variable(2.0)
        >>> x, y = af.constant([1.0, 2.0]), af.constant([3.0, 6.0])
        >>> stages = [("/cpu:0", lambda x: x * v), ("/cpu:0", lambda x: x * 1.0)]
        >>> made = af.train.pipeline(stages, x, y, lambda out, want: af.reduce_mean(af.square(out - want)), 2)
        >>> train = af.train.GradientDescentOptimizer(0.1).apply_gradients(made.grads_and_vars)
        >>> await session.run(v.initializer)
        >>> await session.run(train)
        >>> await session.run(v)
        np.float32(2.5)
    """

    loss: Tensor
    outputs: list[Tensor]
    grads_and_vars: list[tuple[Any, Any]]


@transactional
def pipeline(
    stages: Sequence[Stage | tuple[str, Callable[..., Any]]],
    inputs: TensorLike | Sequence[TensorLike],
    labels: TensorLike | Sequence[TensorLike] | None,
    loss: Callable[..., Tensor],
    micro_batches: int,
    schedule: str = "1f1b",
    var_list: Sequence[Any] | None = None,
    name: str | None = None,
) -> Pipelined:
    """Compute a batch in micro-batches on several stages. Returns its loss and gradients.

    They are those of the whole batch at once, except for rounding, if the outputs of an example do not depend on other
    examples. Variables of stages are named `stage0/...`, inside the surrounding variable scope. With `1f1b` a run of
    the loss always computes the gradients; to compute only outputs, build a second pipeline by `gpipe`, in a scope that
    reuses the variables.

    Args:
        stages: the parts of the model, in order. The result of one is the input of the next.
        inputs: the inputs of the first stage, a tensor or several, with a row for each example. They are constants to
            the gradients.
        labels: further arguments of the loss, a tensor or several, with a row for each example; None for none.
        loss: a function from the last stage's outputs and the labels to a mean over the examples. The losses of
            micro-batches are averaged, weighted by their numbers of examples, so a sum would give a wrong result.
        micro_batches: number of parts of the batch. Some have one example more than others if it cannot be divided
            evenly.
        schedule: `1f1b`, by which a stage keeps the activations of few micro-batches, or `gpipe`, by which all go
            forward before the first goes back.
        var_list: the variables; the graph's trainable ones by default.
        name: the name scope.

    Raises:
        ValueError: there are no stages, no such schedule, fewer examples than micro-batches, different numbers of rows
            in inputs and labels, or no variable is used.
        InvalidArgumentError: in the step, if there are fewer examples than micro-batches, or different numbers of rows.

    Examples:
        >>> v = af.Variable(1.0)
        >>> x, y = af.constant([1.0, 2.0]), af.constant([3.0, 6.0])
        >>> stages = [("/cpu:0", lambda x: x * v), ("/cpu:0", lambda x: x * 1.0)]
        >>> made = af.train.pipeline(stages, x, y, lambda out, want: af.reduce_mean(af.square(out - want)), 2)
        >>> await session.run(v.initializer)
        >>> await session.run(made.loss)
        np.float32(10.0)
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule is one of {', '.join(SCHEDULES)}, not {schedule!r}")
    if not isinstance(micro_batches, int) or micro_batches < 1:
        raise ValueError(f"micro_batches is a number of at least 1, not {micro_batches!r}")
    if not stages:
        raise ValueError("at least one stage is needed")
    with name_scope(name, "pipeline"):
        made = _Pipeline([Stage(*stage) for stage in stages], loss, micro_batches, var_list)
        made.feed(_tensors(inputs), [] if labels is None else _tensors(labels))
        for stage, turn in in_order(SCHEDULES[schedule](len(stages), micro_batches)):
            made.take(stage, turn)
        return made.finished()


class _Pipeline:
    """A pipeline under construction: the results of the work built so far."""

    def __init__(
        self, stages: Sequence[Stage], loss: Callable[..., Tensor], micro_batches: int, var_list: Sequence[Any] | None
    ) -> None:
        self._graph: Final = get_default_graph()
        self._stages: Final = stages
        self._build: Final = [
            make_template("", stage.build, unique_name_=f"stage{number}") for number, stage in enumerate(stages)
        ]
        self._loss: Final = loss
        self._count: Final = micro_batches
        self._var_list: Final = var_list
        self._given: Final[dict[tuple[int, int], list[Tensor]]] = {}
        self._outputs: Final[dict[tuple[int, int], list[Tensor]]] = {}
        self._losses: Final[list[Tensor]] = []
        self._returned: Final[dict[tuple[int, int], list[Gradient]]] = {}
        self._found: Final[dict[Any, dict[int, list[Tensor | IndexedSlices]]]] = {}
        self._before: Final[dict[int, Operation]] = {}
        self._labels: list[list[Tensor]] = []
        self._shares: list[Tensor] = []

    @property
    def _last(self) -> int:
        return len(self._stages) - 1

    def feed(self, inputs: Sequence[Tensor], labels: Sequence[Tensor]) -> None:
        """Divide the batch, on the devices that need its parts."""
        if not inputs:
            raise ValueError("the first stage needs an input")
        _check_rows(inputs, labels)
        with device(self._stages[0].device):
            for number, part in enumerate(_divided(inputs, self._count, inputs[0])):
                self._outputs[-1, number] = part
        with device(self._stages[self._last].device):
            self._labels = _divided(labels, self._count, inputs[0])
            self._shares = _shares(inputs[0], self._count)

    def take(self, stage: int, turn: Turn) -> None:
        """Build the work of a stage at that time, after its earlier work."""
        with device(self._stages[stage].device), name_scope(f"stage{stage}/{turn}"):
            made = self._forward(stage, turn.micro_batch) if turn.forward else self._backward(stage, turn.micro_batch)
            if made:
                self._before[stage] = group(*made, name="done")

    def _wait_turn(self, stage: int, value: Tensor) -> Tensor:
        """Return a value that arrives at a stage, available when its time has come."""
        before = self._before.get(stage)
        with control_dependencies([] if before is None else [before]):
            return identity(value)

    def _forward(self, stage: int, number: int) -> list[Tensor]:
        given = [self._wait_turn(stage, value) for value in self._outputs[stage - 1, number]]
        self._given[stage, number] = given
        outputs = _tensors(self._build[stage](*given))
        self._outputs[stage, number] = outputs
        if stage < self._last:
            return outputs
        loss = convert_to_tensor(self._loss(*outputs, *(self._labels[number] if self._labels else ())))
        if loss.shape.rank not in (0, None):
            raise ValueError(f"the loss is a single number, a mean over the examples, and not of shape {loss.shape}")
        self._losses.append(loss)
        return [*outputs, loss]

    def _backward(self, stage: int, number: int) -> list[Tensor]:
        given, variables = self._given[stage, number], self._variables()
        returning = [value for value in given if stage > 0 and value.dtype.is_differentiable]
        arrived = self._results_with_gradients(stage, number)
        ys, dys = [y for y, _ in arrived], [dy for _, dy in arrived]
        found = gradients(ys, [*returning, *variables], dys, stop_gradients=given)
        back = dict(zip(returning, found, strict=False))
        self._returned[stage, number] = [back.get(value) for value in given]
        for variable, gradient in zip(variables, found[len(returning) :], strict=True):
            if gradient is not None:
                self._found.setdefault(variable, {}).setdefault(stage, []).append(gradient)
        return [each.values if isinstance(each, IndexedSlices) else each for each in found if each is not None]

    def _results_with_gradients(self, stage: int, number: int) -> list[tuple[Tensor, Tensor]]:
        """Return the results of a stage for a micro-batch, with the gradients that have arrived."""
        if stage == self._last:
            return [
                (self._losses[number], self._wait_turn(stage, cast(self._shares[number], self._losses[number].dtype)))
            ]
        outputs, returned = self._outputs[stage, number], self._returned[stage + 1, number]
        pairs = zip(outputs, returned, strict=True)
        return [(y, self._wait_turn(stage, dense(dy, y))) for y, dy in pairs if dy is not None]

    def _variables(self) -> list[Any]:
        return list(
            self._graph.get_collection(GraphKeys.TRAINABLE_VARIABLES) if self._var_list is None else self._var_list
        )

    def finished(self) -> Pipelined:
        """Return the results of all micro-batches together."""
        last = self._stages[self._last].device
        with device(last):
            rows = zip(*[self._outputs[self._last, number] for number in range(self._count)], strict=True)
            outputs = [concat(row, 0) for row in rows]
            shares = [cast(share, self._losses[0].dtype) for share in self._shares]
            loss = add_n([part * share for part, share in zip(self._losses, shares, strict=True)])
        if not self._found:
            raise ValueError("no stage uses a variable that is trained")
        return Pipelined(loss, outputs, [(self._gradient_of(variable), variable) for variable in self._variables()])

    def _gradient_of(self, variable: Any) -> Gradient:
        """Return the sum over all micro-batches, on the stage; over several stages, if they share a variable."""
        sums = []
        for stage, found in sorted(self._found.get(variable, {}).items()):
            with device(self._stages[stage].device):
                sums.append(self._sum(found, variable))
        return self._sum(sums, variable) if sums else None

    def _sum(self, parts: Sequence[Tensor | IndexedSlices], variable: Any) -> Tensor | IndexedSlices:
        method = AggregationMethod.EXPERIMENTAL_ACCUMULATE_N
        return aggregate(self._graph, parts, variable.handle, method)


# Arguments


def _tensors(values: Any) -> list[Tensor]:
    several = isinstance(values, (list, tuple))
    return [convert_to_tensor(value) for value in (values if several else [values])]


def _rows_of(tensor: Tensor) -> int | None:
    """Return the number of rows, if it is known."""
    if tensor.shape.rank == 0:
        raise ValueError(f"{tensor.name!r} is a single number: inputs and labels have a row for each example")
    return None if tensor.shape.rank is None else tensor.shape.as_list()[0]


def _check_rows(inputs: Sequence[Tensor], labels: Sequence[Tensor]) -> None:
    first = _rows_of(inputs[0])
    for what, tensors in (("inputs", inputs), ("labels", labels)):
        for tensor in tensors:
            rows = _rows_of(tensor)
            if None not in (first, rows) and rows != first:
                raise ValueError(f"there are {first} inputs, and {rows} {what}: each has a row for each example")


def _agreeing(tensor: Tensor, first: Tensor) -> Tensor:
    """Return the tensor, after a check in the run that it has as many rows as the first, if that is unknown before."""
    if tensor is first or None not in (_rows_of(tensor), _rows_of(first)):
        return tensor
    with tensor.graph.colocate_with(first, ignore_existing=True):
        rows = shape(first)[0]
    same = assert_equal(shape(tensor)[0], rows, message="inputs and labels have a row for each example")
    with control_dependencies([same]):
        return identity(tensor)


def _divided(tensors: Sequence[Tensor], count: int, first: Tensor) -> list[list[Tensor]]:
    """Return for each micro-batch its rows of each tensor."""
    agreeing = [_agreeing(tensor, first) for tensor in tensors]
    columns = [split(tensor, _sizes(tensor, count), 0, num=count) for tensor in agreeing]
    return [[column[number] for column in columns] for number in range(count)]


def _sizes(tensor: Tensor, count: int) -> Any:
    """Return the number of rows of each micro-batch, as a vector."""
    known = _rows_of(tensor)
    if known is not None:
        if known < count:
            raise ValueError(f"{known} examples cannot be divided into {count} micro-batches")
        return [(known + count - 1 - number) // count for number in range(count)]
    rows = shape(tensor)[0]
    enough = assert_greater_equal(rows, count, message=f"there are fewer examples than the {count} micro-batches")
    with control_dependencies([enough]):
        return (rows + constant(np.arange(count - 1, -1, -1), dtypes.int32)) // count


def _shares(tensor: Tensor, count: int) -> list[Tensor]:
    """Return the share of each micro-batch in all examples, as float64."""
    sizes = cast(convert_to_tensor(_sizes(tensor, count)), dtypes.float64)
    return unstack(sizes / reduce_sum(sizes), num=count)
