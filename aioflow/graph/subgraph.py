"""Bodies: the sub-graphs that structured control flow holds, a branch of `cond`, the condition or step of a loop.

A body is a graph with arguments. Whoever describes one uses tensors of the graphs around as they please: each becomes
one more argument, a capture. So a body touches nothing outside but what its operation has as inputs, resources too.
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
    """A value that a body is given each time it runs."""
    return Spec(dtype, TensorShape(shape))


argument.no_gradient("what a body is given has its history outside")


@argument.kernel(DeviceKind.CPU, DeviceKind.GPU, binds=True)
def _(xp: Any, node: Any) -> Any:
    def missing() -> Any:
        raise RuntimeError(f"{node.name!r} is given by the operation that holds its body")

    return missing


class BodyGraph(Graph):
    """The graph of one body. It shares its lock, transactions and collections with the graph around it.

    Attributes:
        outer: the graph around.
        captures: for each tensor used from outside, the argument that stands for it here.
        starts: for each loop variable, the tensor that is its first value.
        exposed: for each tensor of this graph that a gradient uses, the output by which its operation hands it out.
        waits_for: operations outside that operations here were told to run after; the whole body does.
        forward: for the body of a gradient, the body that is differentiated; the gradient may use its tensors.
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
        self.exposed: Final[dict[Tensor, Tensor]] = {}
        self.waits_for: Final[dict[Operation, None]] = {}

    @property
    def root(self) -> Graph:
        """The graph that all bodies around are in."""
        return self._root

    def next_seed(self) -> int:
        """A seed for the next operation, another one in every body."""
        return self._seeds + self.version

    def sees(self, graph: Graph) -> bool:
        """Whether tensors of `graph` can be used here."""
        around: Graph = self
        while isinstance(around, BodyGraph):
            if graph is around or graph is around.forward:
                return True
            around = around.outer
        return graph is around

    def adopt(self, tensor: Tensor) -> Tensor:
        """What stands for `tensor` here. ValueError if it is of a graph that is not around this one."""
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
        """One more argument."""
        attrs = {"dtype": spec.dtype, "shape": spec.shape}
        with self._outside_scopes():
            return self.add(argument, (), attrs, [spec], name).outputs[0]

    def _copy_operation(self, operation: Operation) -> Operation:
        specs = [output.spec for output in operation.outputs]
        with self._outside_scopes():
            return self.add(operation.definition, (), operation.attrs, specs, operation.name.rpartition("/")[2])

    def _outside_scopes(self) -> contextlib.AbstractContextManager[Any]:
        """Inside, operations are built that belong to the body as a whole."""
        return scopes.change_scope(self, controls=(), devices=(), colocation=())

    def as_graph_element(
        self, value: object, allow_tensor: bool = True, allow_operation: bool = True
    ) -> Tensor | Operation:
        """As in every graph; what is found outside is captured, an operation is returned as it is."""
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
        """Operations built inside run after these; None clears all such blocks around."""
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
        """Inside, it is the default graph, with the surroundings of the graph around, under the name scope `name`."""
        around = scopes.scope_of(self.outer)
        with self.as_default(), scopes.change_scope(self, **_inherited_scope(around), name=name):
            yield


def _inherited_scope(around: scopes.Scope) -> dict[str, Any]:
    names = ("devices", "container", "colocation", "gradient_overrides", "origin")
    return {name: getattr(around, name) for name in names}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A body as its operation holds it.

    Attributes:
        graph: what it computes.
        arguments: what it is given.
        takes: for each argument, which input of the operation it is.
        outputs: what it gives.
    """

    graph: BodyGraph
    arguments: tuple[Tensor, ...]
    takes: tuple[int, ...]
    outputs: tuple[Tensor, ...]

    @property
    def output_specs(self) -> list[Spec]:
        """The Specs of what it gives."""
        return [output.spec for output in self.outputs]

    def with_outputs(self, *more: Tensor) -> "Body":
        """The same with more outputs."""
        return dataclasses.replace(self, outputs=(*self.outputs, *more))

    def input_of(self, tensor: Tensor) -> int | None:
        """Which input of the operation a tensor of the body is; None if it is none."""
        return next((i for i, given in zip(self.takes, self.arguments, strict=True) if given is tensor), None)

    def __repr__(self) -> str:
        return f"<Body of {self.graph.version} operations>"


def bodies_of(operation: Operation) -> list[Body]:
    """The bodies that an operation holds."""
    return [value for value in operation.attrs.values() if isinstance(value, Body)]


def outermost_source(tensor: Tensor) -> Tensor:
    """The tensor outside all bodies that a captured tensor stands for; any other tensor unchanged."""
    while isinstance(tensor.graph, BodyGraph):
        outside = next((source for source, made in tensor.graph.captures.items() if made is tensor), None)
        if outside is None:
            break
        tensor = outside
    return tensor


def trace_body(outer: Graph, name: str, function: Callable[[BodyGraph], Any]) -> tuple[BodyGraph, Any]:
    """A new body of `outer`, described by `function`, which is called with it; and what that returns."""
    graph = BodyGraph(outer)
    with graph.building(name):
        return graph, function(graph)


def captured_tensors(*graphs: BodyGraph) -> list[Tensor]:
    """What these bodies, all of the same operation, capture as arguments: each tensor once."""
    return list(
        dict.fromkeys(
            tensor for graph in graphs for tensor, made in graph.captures.items() if made.op.type == "argument"
        )
    )


def make_body(graph: BodyGraph, given: Sequence[tuple[int, Tensor]], captures: dict[Tensor, int], outputs: Any) -> Body:
    """The body with these own arguments, each with the number of its input, and captures, by the number of theirs."""
    taken = [(captures[t], made) for t, made in graph.captures.items() if made.op.type == "argument"]
    pairs = [*given, *taken]
    return Body(graph, tuple([a for _, a in pairs]), tuple([i for i, _ in pairs]), tuple(outputs))


def with_new_shape(spec: Spec) -> Spec:
    """A Spec of the same dtype and sizes whose shape, if open, is no other tensor's: another run may find others."""
    if isinstance(spec, ResourceSpec):
        return spec
    return Spec(spec.dtype, spec.shape if spec.shape.is_fully_defined() else TensorShape(spec.sizes))
