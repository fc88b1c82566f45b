"""Bodies: the sub-graphs of control flow, such as a branch of `cond` or the condition and step of a loop.

A body is a graph with arguments. A user's function that builds a body may use tensors of the graphs around it. Each of
them becomes one more argument, a capture. So a body reads only the inputs of its operation, resources too.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from aioflow.graph import scopes
from aioflow.graph.graph import Graph
from aioflow.graph.op import op
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DeviceKind, DType, ResourceSpec, Spec, TensorShape


@op(stateful=True)
def argument(dtype: DType, shape: TensorShape) -> Spec:
    """A value that a body receives in each run."""
    return Spec(dtype, TensorShape(shape))


argument.no_gradient("the gradient of a body's argument is computed outside")


@argument.kernel(DeviceKind.CPU, DeviceKind.GPU, binds=True)
def _(xp: Any, node: Any) -> Any:
    def missing() -> Any:
        raise RuntimeError(f"{node.name!r} must be set by the operation that holds its body")

    return missing


class BodyGraph(Graph):
    """The graph of one body. It shares its lock, transactions and collections with the graph around it.

    Attributes:
        outer: the graph around it.
        captures: {tensor from outside: its argument here}.
        starts: {loop variable: the tensor of its first value}.
        exposed: {(operation with this body, tensor here that its gradient uses): the operation's output of its value}.
        waits_for: operations outside that are control inputs of operations here; the whole body waits for them.
        forward: in the body of a gradient, the body that it differentiates and whose tensors it may use.
    """

    forward: "BodyGraph | None" = None

    def __init__(self, outer: Graph) -> None:
        super().__init__()
        self.outer: Final = outer
        self._root = outer.root
        self._lock, self._journals, self._collections = outer._lock, outer._journals, outer._collections
        self._seeds = outer.next_seed() * 1_000_003
        self.seed = outer.seed
        self.captures: Final[dict[Tensor, Tensor]] = {}
        self.starts: Final[dict[Tensor, Tensor]] = {}
        self.exposed: Final[dict[tuple[Operation, Tensor], Tensor]] = {}
        self.waits_for: Final[dict[Operation, None]] = {}

    @property
    def root(self) -> Graph:
        """The outermost graph."""
        return self._root

    def next_seed(self) -> int:
        """Return a default seed for the next random operation; bodies have different seeds."""
        return self._seeds + self.version

    def sees(self, graph: Graph) -> bool:
        """Whether operations here may use tensors of `graph`."""
        around: Graph = self
        while isinstance(around, BodyGraph):
            if graph is around or graph is around.forward:
                return True
            around = around.outer
        return graph is around

    def adopt(self, tensor: Tensor) -> Tensor:
        """Return the tensor for use here, as a capture if it is from outside.

        ValueError if its graph is not around this one.
        """
        if tensor.graph is self:
            return tensor
        found = self.captures.get(tensor)
        if found is not None:
            return found
        if not self.sees(tensor.graph):
            return super().adopt(tensor)
        made = self.captures[tensor] = self.argument(tensor.spec)
        self.on_failure(functools.partial(self.captures.pop, tensor, None))
        return made

    def argument(self, spec: Spec, name: str = "argument") -> Tensor:
        """Add an argument."""
        attrs = {"dtype": spec.dtype, "shape": spec.shape}
        with self._outside_scopes():
            return self.add(argument, (), attrs, [spec], name).outputs[0]

    def _copy_operation(self, operation: Operation) -> Operation:
        specs = [output.spec for output in operation.outputs]
        with self._outside_scopes():
            return self.add(operation.definition, (), operation.attrs, specs, operation.name.rpartition("/")[2])

    def _outside_scopes(self) -> contextlib.AbstractContextManager[Any]:
        """Build operations inside the block without the current control inputs, devices and colocation."""
        return scopes.change_scope(self, controls=(), devices=(), colocation=())

    def as_graph_element(
        self, value: object, allow_tensor: bool = True, allow_operation: bool = True
    ) -> Tensor | Operation:
        """Return the element as `Graph` does. A tensor from outside is captured; an operation is returned unchanged."""
        stands_for = getattr(value, "_as_graph_element", None)
        element = stands_for() if stands_for is not None else value
        if isinstance(element, Tensor) and element.graph is not self and self.sees(element.graph):
            element = self.adopt(element)
        if isinstance(element, Operation) and element.graph is not self and self.sees(element.graph):
            return element
        return super().as_graph_element(element, allow_tensor, allow_operation)

    def _colocation_of(self, op: Any) -> tuple[str, ...]:
        operation = op.op if isinstance(op, Tensor) else op
        outside = isinstance(operation, Operation) and operation.graph is not self and self.sees(operation.graph)
        return operation.colocation or (operation.name,) if outside else super()._colocation_of(op)

    @contextlib.contextmanager
    def control_dependencies(self, control_inputs: Iterable[Any] | None) -> Iterator[None]:
        """Run operations built inside after these; None clears the control inputs of outer blocks."""
        if control_inputs is None:
            with super().control_dependencies(None):
                yield
            return
        given = [value.op if isinstance(value, Tensor) else value for value in control_inputs]
        elements = [self.as_graph_element(value) for value in given]
        operations = [element.op if isinstance(element, Tensor) else element for element in elements]
        self.waits_for.update(dict.fromkeys(each for each in operations if each.graph is not self))
        with super().control_dependencies([each for each in operations if each.graph is self]):
            yield

    @contextlib.contextmanager
    def building(self, name: str) -> Iterator[None]:
        """Make it the default graph inside the block, with the scopes of the outer graph and the name scope `name`."""
        around = scopes.scope_of(self.outer)
        with self.as_default(), scopes.change_scope(self, **_inherited_scope(around), name=name):
            yield


def _inherited_scope(around: scopes.Scope) -> dict[str, Any]:
    names = ("devices", "container", "colocation", "gradient_overrides", "origin")
    return {name: getattr(around, name) for name in names}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A body as an attribute of its operation.

    Attributes:
        graph: the operations of the body.
        arguments: the outputs of its argument operations.
        takes: for each argument, the index of the operation's input that feeds it.
        outputs: the tensors that it returns.
    """

    graph: BodyGraph
    arguments: tuple[Tensor, ...]
    takes: tuple[int, ...]
    outputs: tuple[Tensor, ...]

    @property
    def output_specs(self) -> list[Spec]:
        """The Specs of the outputs."""
        return [output.spec for output in self.outputs]

    def with_outputs(self, *more: Tensor) -> "Body":
        """Return the body with more outputs."""
        return dataclasses.replace(self, outputs=(*self.outputs, *more))

    def input_of(self, tensor: Tensor) -> int | None:
        """Return the index of the operation's input that feeds the argument `tensor`; None for other tensors."""
        return next((i for i, given in zip(self.takes, self.arguments, strict=True) if given is tensor), None)

    def __repr__(self) -> str:
        return f"<Body of {self.graph.version} operations>"


def bodies_of(operation: Operation) -> list[Body]:
    """Return the bodies of an operation."""
    return [value for value in operation.attrs.values() if isinstance(value, Body)]


def outermost_source(tensor: Tensor) -> Tensor:
    """Return the tensor outside all bodies that a captured tensor stands for; any other tensor unchanged."""
    while isinstance(tensor.graph, BodyGraph):
        outside = next((source for source, made in tensor.graph.captures.items() if made is tensor), None)
        if outside is None:
            break
        tensor = outside
    return tensor


def trace_body(outer: Graph, name: str, function: Callable[[BodyGraph], Any]) -> tuple[BodyGraph, Any]:
    """Build a new body inside `outer` by calling `function` with it. Returns the body and the function's result."""
    graph = BodyGraph(outer)
    with graph.building(name):
        return graph, function(graph)


def captured_tensors(*graphs: BodyGraph) -> list[Tensor]:
    """Return the tensors that these bodies of one operation capture, each once."""
    return list(
        dict.fromkeys(
            tensor for graph in graphs for tensor, made in graph.captures.items() if made.op.type == "argument"
        )
    )


def make_body(graph: BodyGraph, given: Sequence[tuple[int, Tensor]], captures: dict[Tensor, int], outputs: Any) -> Body:
    """Return the finished body.

    `given` has its arguments and `captures` its captured tensors, with their input indices.
    """
    taken = [(captures[t], made) for t, made in graph.captures.items() if made.op.type == "argument"]
    pairs = [*given, *taken]
    return Body(graph, tuple([a for _, a in pairs]), tuple([i for i, _ in pairs]), tuple(outputs))


def with_new_shape(spec: Spec) -> Spec:
    """Return the Spec with a new shape object, which planning does not take for the shape of another tensor."""
    if isinstance(spec, ResourceSpec):
        return spec
    return Spec(spec.dtype, spec.shape if spec.shape.is_fully_defined() else TensorShape(spec.sizes))
