"""Bodies of gradients, which use tensors of the forward body besides those of the enclosing graphs.

A gradient's body gets the captures of the forward body and creates its constants again. For every other tensor of the
forward body it adds an output to the forward operation.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from aioflow.autodiff.backward import gradient_spec
from aioflow.graph import scopes
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.subgraph import Body, BodyGraph
from aioflow.kernels.array.constants import zeros, zeros_like
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.control.tensor_lists import zero_list_like
from aioflow.kernels.state.variables import read_variable
from aioflow.tensors.dtypes import ListSpec

R = TypeVar("R")
Expose = Callable[[Tensor], Tensor]
"""(tensor of the forward body) -> a new output of its operation with that value."""


class BackwardGraph(BodyGraph):
    """The body of a gradient.

    Attributes:
        forward: the graph of the forward body.
        replays: {output that a forward loop records: the argument that gets its elements from the end}.
    """

    forward: BodyGraph

    def __init__(self, outer: Graph, op: Operation, body: Body, expose: Expose, replay: bool) -> None:
        super().__init__(outer)
        self.forward = body.graph
        self.replays: Final[dict[Tensor, Tensor]] = {}
        self._op = op
        self._body = body
        self._expose = expose
        self._replay = replay

    def adopt(self, tensor: Tensor) -> Tensor:
        """Return the tensor that replaces `tensor` here."""
        if tensor.graph is not self.forward:
            return super().adopt(tensor)
        given = self._body.input_of(tensor)
        if given is not None and (not self._replay or self._captures(given)):
            return super().adopt(self._op.inputs[given])
        if tensor.op.type == "constant":
            return self._constant(tensor)
        output = self.forward.exposed.get((self._op, tensor))
        if output is None:
            output = self.forward.exposed[self._op, tensor] = self._expose(tensor)
            self.on_failure(functools.partial(self.forward.exposed.pop, (self._op, tensor), None))
        return self.replayed(output, tensor) if self._replay else super().adopt(output)

    def _captures(self, given: int) -> bool:
        """Whether that input of a loop is the same in every iteration."""
        attrs = self._op.attrs
        own: int = attrs["limited"] + attrs["variables"] + attrs["replays"]
        return given >= own

    def _constant(self, tensor: Tensor) -> Tensor:
        found = self.captures.get(tensor)
        if found is None:
            found = self.captures[tensor] = self._copy_operation(tensor.op).outputs[0]
            self.on_failure(functools.partial(self.captures.pop, tensor, None))
        return found

    def replayed(self, record: Tensor, tensor: Tensor) -> Tensor:
        """Return the argument with the elements of `record` from the end: the values of `tensor`, or its gradient."""
        found = self.replays.get(record)
        if found is None:
            found = self.replays[record] = self.argument(tensor.spec)
            self.on_failure(functools.partial(self.replays.pop, record, None))
        return found

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Build further operations of the body inside."""
        with self.building(scopes.scope_of(self.outer).name):
            yield


def backward_outline(
    outer: Graph,
    op: Operation,
    body: Body,
    expose: Expose,
    name: str,
    describe: Callable[[BackwardGraph], R],
    replay: bool = False,
) -> tuple[BackwardGraph, R]:
    """Build the body of a gradient of `op` by calling `describe` with it. Returns the body and the result."""
    graph = BackwardGraph(outer, op, body, expose, replay)
    with graph.building(outer.unique_name(name)):
        return graph, describe(graph)


def zeros_for(tensor: Tensor) -> Tensor:
    """Return a zero gradient for `tensor`: for a handle, zeros of its value; for a list, an empty list."""
    if isinstance(tensor.spec, ListSpec):
        return zero_list_like(tensor)
    expected = gradient_spec(tensor)
    if expected is None or expected is tensor.spec:
        return zeros_like(tensor)
    sizes = expected.shape
    return zeros(sizes, expected.dtype) if sizes.is_fully_defined() else zeros_like(read_variable(tensor))


def sizes_of(tensor: Tensor) -> Any:
    """Return the shape of `tensor`, or of a handle's value: a list if it is known, else a vector."""
    expected = gradient_spec(tensor)
    if expected is not None and expected.shape.is_fully_defined():
        return expected.shape.as_list()
    return shape(tensor if expected is None or expected is tensor.spec else read_variable(tensor))
