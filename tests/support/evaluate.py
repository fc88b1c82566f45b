"""A second, tiny evaluator for tests of single ops: recursion over the graph, one kernel at a time, no plan."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from aioflow.graph.kernel import Kernel
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.subgraph import Body
from aioflow.kernels.context import Context
from aioflow.kernels.control.control_flow import DEAD
from aioflow.resources.containers import Resources
from aioflow.tensors.dtypes import DeviceKind, Spec
from aioflow.tensors.tensor_list import TensorList


class View:
    """The operation as its kernel sees it."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.name = operation.name
        self.attrs = operation.attrs
        self.input_specs: list[Spec] = [tensor.spec for tensor in operation.inputs]
        self.output_specs: list[Spec] = [tensor.spec for tensor in operation.outputs]

    def constant(self, index: int) -> Any:
        made_by = self.operation.inputs[index].op
        return made_by.attrs["value"] if made_by.type == "constant" else None


class FirstStep:
    """All that a stateless kernel asks of the step: nothing has run before."""

    id = 1
    journal = None

    def times_run(self, name: str) -> int:
        return 0


CONTEXT = Context(np, Resources(), FirstStep())


def bound(kernel: Kernel, operation: Operation) -> Callable[..., Any]:
    """The kernel as a function of the operation's inputs."""
    function = kernel.bind(operation.definition, View(operation), np)
    return functools.partial(function, CONTEXT) if kernel.context else function


def evaluate(fetch: Any, feeds: Mapping[Tensor, Any] | None = None) -> Any:
    """The value of a tensor, or of a list of them, with stateless CPU kernels."""
    values: dict[Tensor, Any] = dict(feeds or {})
    fetches = fetch if isinstance(fetch, (list, tuple)) else [fetch]
    with np.errstate(all="ignore"):
        for tensor in fetches:
            _compute(tensor, values)
    found = [None if tensor is None else values[tensor] for tensor in fetches]
    return found if isinstance(fetch, (list, tuple)) else found[0]


def _body(body: Body, inputs: Mapping[int, Any]) -> list[Any]:
    """What a body makes of the inputs that it takes."""
    given = {argument: inputs[place] for argument, place in zip(body.arguments, body.takes, strict=True)}
    return evaluate(list(body.outputs), given)


def _branch(attrs: Mapping[str, Any], inputs: list[Any]) -> list[Any]:
    return _body(attrs["then"] if inputs[0] else attrs["otherwise"], dict(enumerate(inputs)))


def _loop(attrs: Mapping[str, Any], inputs: list[Any]) -> list[Any]:
    """A loop as it is meant: the variables, the number of iterations, what is recorded."""
    places, first, count = dict(enumerate(inputs)), int(attrs["limited"]), attrs["variables"]
    lists = {place: inputs[place].elements() for place in range(first + count, first + count + attrs["replays"])}
    records: list[list[Any]] = [[] for _ in attrs["body"].outputs[count:]]
    number = 0
    while not (attrs["condition"] and not _body(attrs["condition"], places)[0]):
        if first and number >= inputs[0]:
            break
        made = _body(attrs["body"], places | {place: items.pop() for place, items in lists.items()})
        places.update(zip(range(first, first + count), made, strict=False))
        for record, value in zip(records, made[count:], strict=True):
            record.append(value)
        number += 1
    return [*[places[first + i] for i in range(count)], np.int32(number), *[TensorList.of(r) for r in records]]


STRUCTURED = {"cond": _branch, "while_loop": _loop}


def _compute(tensor: Tensor | None, values: dict[Tensor, Any]) -> None:
    if tensor is None or tensor in values:
        return
    for source in tensor.op.inputs:
        _compute(source, values)
    if tensor.op.type != "merge" and any(values[source] is DEAD for source in tensor.op.inputs):
        values.update(dict.fromkeys(tensor.op.outputs, DEAD))
        return
    inputs = [values[source] for source in tensor.op.inputs]
    if tensor.op.type in STRUCTURED:
        results = STRUCTURED[tensor.op.type](tensor.op.attrs, inputs)
    else:
        kernel = tensor.op.definition.kernel_for(DeviceKind.CPU, View(tensor.op).input_specs)
        result = bound(kernel, tensor.op)(*inputs)
        results = (result,) if len(tensor.op.outputs) == 1 else result
    values.update(zip(tensor.op.outputs, results, strict=True))
