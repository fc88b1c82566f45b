"""Control flow in structured form: ops that hold sub-graphs, which they run by condition or again and again.

A plan compiles them to Python's own `if` and `while` where nothing in them waits, and lowers them to Switch, Merge,
Enter, Exit and NextIteration where something does [P15 section 4.4]; so they have no kernels of their own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.subgraph import Body, with_new_shape
from aioflow.kernels.context import Context
from aioflow.kernels.control.transfer import put_away, taken_back
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import (
    SCALAR,
    Array,
    DeviceKind,
    DType,
    ListSpec,
    Namespace,
    ResourceSpec,
    Spec,
    TensorShape,
)
from aioflow.tensors.tensor_list import TensorList, is_gap

CPU, GPU = DeviceKind.CPU, DeviceKind.GPU


@op(stateful=True)
def absent(dtype: DType, shape: TensorShape) -> Spec:
    """The output of a branch in place of a value that only the other branch computes; never read."""
    return Spec(dtype, TensorShape(shape))


absent.no_gradient("it is never read")


@absent.kernel(CPU, GPU, binds=True)
def _(xp: Namespace, node: NodeView) -> Any:
    """Nothing that a sum of zeros could stumble over, and of the declared shape: another device may receive it."""
    spec = node.output_specs[0]
    if isinstance(spec, ListSpec):
        return lambda: TensorList.of([])
    nothing = b"" if spec.dtype in (dtypes.resource, dtypes.string) else spec.dtype.np.type(0)
    if spec.dtype is dtypes.resource or not spec.sizes:
        return lambda: nothing
    names = np if spec.dtype is dtypes.string else xp
    sizes = [1 if size is None else size for size in spec.sizes]
    whole = names.broadcast_to(names.asarray(nothing, spec.dtype.np), sizes)
    return lambda: whole


@op(name="cond", stateful=True)
def branch(pred: Spec, inputs: Sequence[Spec], then: Body, otherwise: Body) -> tuple[Spec, ...]:
    """The outputs of `then` if `pred` is true, else the outputs of `otherwise`."""
    predicate(pred, "pred")
    pairs = zip(then.output_specs, otherwise.output_specs, strict=True)
    return tuple([_either(index, a, b) for index, (a, b) in enumerate(pairs)])


def predicate(spec: Spec, what: str) -> None:
    """TypeError or ValueError unless it can be one bool."""
    if spec.dtype is not dtypes.bool_:
        raise TypeError(f"{what} must be one bool, its dtype is {spec.dtype.name}")
    if spec.rank not in (None, 0):
        raise ValueError(f"{what} must be one bool, its shape is {spec.shape}")


def _either(index: int, a: Spec, b: Spec) -> Spec:
    """The most specific Spec that is true of both."""
    if a.dtype is not b.dtype:
        raise TypeError(
            f"output {index} of the branches has dtypes {a.dtype.name} and {b.dtype.name}: cast one of them"
        )
    if isinstance(a, ResourceSpec) or isinstance(b, ResourceSpec):
        return either_resource(f"output {index} of the branches", a, b)
    if a.shape is b.shape:
        return Spec(a.dtype, a.shape, a.known if a.known == b.known else None)
    return Spec(a.dtype, common(a.shape, b.shape), a.known if a.known == b.known else None)


def either_resource(what: str, a: Spec, b: Spec) -> Spec:
    """The most specific Spec that is true of two handles or lists. TypeError if their elements differ."""
    if isinstance(a, ListSpec) and isinstance(b, ListSpec):
        return a.common_with(b)
    mine, theirs = [[(i.dtype, i.shape.sizes) for i in ResourceSpec.check(s).items] for s in (a, b)]
    if type(a) is not type(b) or mine != theirs:
        raise TypeError(f"{what} is {a} or {b}: handles must hold the same")
    return a


def common(a: TensorShape, b: TensorShape) -> TensorShape:
    """The sizes on which both agree; an unknown rank if they have different ranks."""
    if a.sizes is None or b.sizes is None or len(a.sizes) != len(b.sizes):
        return TensorShape(None)
    return TensorShape([mine if mine == theirs else None for mine, theirs in zip(a.sizes, b.sizes, strict=True)])


@op(name="while_loop", stateful=True)
def loop(
    inputs: Sequence[Spec],
    condition: Body | None,
    body: Body,
    limited: bool,
    variables: int,
    replays: int,
    parallel_iterations: int = 10,
    swap_memory: bool = False,
    back_prop: bool = True,
) -> tuple[Spec, ...]:
    """The loop variables after the last iteration, the number of iterations, and the records.

    `inputs` are a limit of iterations if it is `limited`, the loop variables' first values, lists to replay from their
    ends, and captures. In each iteration, while `condition` holds, `body` makes the next values of the variables and
    one element for each record.
    """
    first = inputs[limited : limited + variables]
    made = body.output_specs
    results = [_last(body, limited + i, spec, made[i]) for i, spec in enumerate(first)]
    return (*results, Spec(dtypes.int32, SCALAR), *[ListSpec.record(with_new_shape(spec)) for spec in made[variables:]])


def _last(body: Body, index: int, first: Spec, made: Spec) -> Spec:
    """The Spec of a loop variable at the end: exactly the first value's shape if no iteration changes it."""
    argument = next(a for a, takes in zip(body.arguments, body.takes, strict=True) if takes == index).spec
    if isinstance(made, ListSpec) and isinstance(first, ListSpec):
        return made
    if isinstance(first, ResourceSpec):
        return first
    if made.shape is argument.shape and argument.shape.sizes == first.shape.sizes:
        return Spec(first.dtype, first.shape)
    return with_new_shape(Spec(argument.dtype, argument.shape))


# Records of loops


@op
def completed(records: Spec, like: Spec) -> Spec:
    """`records`, the gradient of `like`, with zeros in its gaps."""
    return ListSpec.check(records).common_with(ListSpec.check(like))


@completed.gradient
def _(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    return dy, None


@completed.kernel(CPU, GPU)
def _(xp: Namespace, records: TensorList, like: TensorList) -> TensorList:
    gaps = [index for index in range(len(like)) if index >= len(records) or is_gap(records.item(index))]
    return records.write_all({index: _zeros(xp, like.item(index)) for index in gaps}) if gaps else records


def _zeros(xp: Namespace, item: Any) -> Any:
    return TensorList(len(item)) if isinstance(item, TensorList) else xp.zeros_like(item)


# Where a loop is lowered: plans alone contain these


@op(stateful=True)
def no_records() -> Spec:
    """A list of nothing yet."""
    return ListSpec(Spec(dtypes.float32))


@op(stateful=True)
def recorded(records: Spec, value: Spec, swap_memory: bool = False) -> Spec:
    """`records`, and `value` after them, which may be moved to host memory."""
    return ListSpec.check(records)


@op(stateful=True)
def replayed(records: Spec, iteration: Spec) -> Spec:
    """The element of `records` that many places before the last."""
    return ListSpec.check(records).element


replayed.on_host("iteration")
no_records.kernel(CPU, GPU)(lambda xp: TensorList.of([]))


@recorded.kernel(CPU, GPU)
def _(ctx: Context, records: TensorList, value: Any, *, swap_memory: bool) -> TensorList:
    return records.append(put_away(ctx.device, value) if swap_memory else value)


@replayed.kernel(CPU, GPU)
def _(ctx: Context, records: TensorList, iteration: Array) -> Any:
    return taken_back(ctx.device, records.item(len(records) - 1 - int(iteration)))


for _op in (no_records, recorded, replayed):
    _op.no_gradient("plans alone contain it")
