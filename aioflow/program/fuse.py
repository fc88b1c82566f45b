"""Fuses chains of nodes into one statement: on a CPU block by block, see `chains`; on a GPU into one kernel."""

import abc
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from aioflow.devices.gpu import ChainLink, fusible, make_chain_kernel
from aioflow.graph.kernel import Kernel
from aioflow.kernels.context import Context
from aioflow.plan.passes.flow import Node, Value
from aioflow.tensors.dtypes import Array, Namespace, TensorShape


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """A node with the kernel chosen for it.

    Attributes:
        node: the node.
        kernel: its kernel.
        call: the kernel as a function of the inputs, after the Context if `takes_context`; or a handle of it.
        expression: the Python expression that computes the node from NumPy scalars, if it has one; see `scalars`.
        lends: whether `call` chooses memory for its result that peers can map; see `lending`.
    """

    node: Node
    kernel: Kernel
    call: Any
    expression: str | None = None
    lends: bool = False

    @property
    def nodes(self) -> Sequence[Node]:
        """The node alone."""
        return (self.node,)

    @property
    def inputs(self) -> Sequence[Value]:
        """What it reads."""
        return self.node.inputs

    @property
    def results(self) -> Sequence[Value]:
        """What it makes."""
        return [Value(self.node, index) for index in range(len(self.node.output_specs))]

    @property
    def takes_context(self) -> bool:
        """Whether `call` takes the Context first."""
        return self.kernel.context

    @property
    def fresh(self) -> bool:
        """Whether its results share no memory with its inputs."""
        return self.kernel.fresh

    @property
    def out(self) -> bool:
        """Whether it can write into a given array."""
        return self.kernel.out and len(self.node.output_specs) == 1


Failed = tuple[Node, Sequence[Array]]
"""A node whose kernel raised an error, and its inputs."""


class ChainFunction(Protocol):
    """The function of a chain."""

    def __call__(self, ctx: Context, *arrays: Array) -> Any:
        """One array for one result, a list for several."""

    def failed(self, error: BaseException, arrays: Sequence[Array]) -> Failed | None:
        """The node that raised an error of a call with these arrays; None if that is not known."""


@dataclasses.dataclass(frozen=True, slots=True)
class Chain:
    """Several nodes as one statement: `call` takes the Context and the inputs, and returns the results.

    Attributes:
        members: its nodes, sources first.
        inputs: the values that it reads.
        results: the values that are needed after it.
        call: its function.
        overwrites: the inputs into which `call` can write the result, given as `out`.
    """

    members: tuple[Bound, ...]
    inputs: tuple[Value, ...]
    results: tuple[Value, ...]
    call: ChainFunction
    overwrites: frozenset[Value] = frozenset()
    takes_context = True
    fresh = True

    @property
    def nodes(self) -> Sequence[Node]:
        """Its nodes."""
        return [member.node for member in self.members]

    @property
    def node(self) -> Node:
        """The node that stands for all of them in errors that are not of one node."""
        return self.members[-1].node

    @property
    def out(self) -> bool:
        """Whether it can write into one of its inputs."""
        return bool(self.overwrites)

    def failed(self, error: BaseException, inputs: Sequence[Array]) -> Failed:
        """The node that raised an error of a call with these inputs, and the inputs of that node."""
        return self.call.failed(error, inputs) or (self.node, inputs)


Statement = Bound | Chain


class Run(abc.ABC):
    """A chain that grows.

    Attributes:
        members: its nodes, sources first.
    """

    def __init__(self) -> None:
        self.members: Final[list[Bound]] = []
        self._nodes: Final[set[Node]] = set()

    def takes(self, b: Bound) -> bool:
        """Append the next node, and return True, if it can be in the chain."""
        if not self._fits(b):
            return False
        self.members.append(b)
        self._nodes.add(b.node)
        return True

    def is_apart_from(self, b: Bound) -> bool:
        """Whether the node needs nothing of the chain."""
        return self._nodes.isdisjoint([*[value.node for value in b.inputs], *b.node.controls])

    @abc.abstractmethod
    def _fits(self, b: Bound) -> bool: ...

    def overwrites(self, inputs: Sequence[Value], results: Sequence[Value]) -> frozenset[Value]:
        """The inputs into which the function can write its result."""
        return frozenset()

    @abc.abstractmethod
    def function(self, inputs: Sequence[Value], results: Sequence[Value]) -> ChainFunction:
        """The function of the chain: from the Context and the inputs to the results."""


def fuse(bound: Sequence[Any], wanted: Iterable[Value], begin: Callable[[Bound], Run | None]) -> list[Any]:
    """Return the statements with chains of at least two nodes fused.

    A node that computes nothing, such as a read of a variable, and needs no value of the chain is moved before it.

    Args:
        bound: nodes, or branches and loops, sources first.
        wanted: the values needed after them.
        begin: makes a chain of one node, if a chain can begin with it.
    """
    last_reader = _last_readers(bound, wanted)
    statements: list[Statement] = []
    run: Run | None = None
    for position, b in enumerate(bound):
        if run is not None:
            if isinstance(b, Bound) and run.takes(b):
                continue
            if isinstance(b, Bound) and not b.fresh and run.is_apart_from(b):
                statements.append(b)
                continue
            statements += _closed(run, position, last_reader)
        run = begin(b) if isinstance(b, Bound) else None
        if run is None:
            statements.append(b)
    return statements if run is None else statements + _closed(run, len(bound), last_reader)


def _last_readers(bound: Sequence[Bound], wanted: Iterable[Value]) -> dict[Value, int]:
    """Return for each value the position of its last reader; beyond the end for a needed value."""
    last = {value: position for position, b in enumerate(bound) for value in b.inputs}
    last.update(dict.fromkeys(wanted, len(bound)))
    return last


def _closed(run: Run, end: int, last_reader: dict[Value, int]) -> list[Statement]:
    """The run as a chain, if it is long enough."""
    members = run.members
    if len(members) < 2:
        return list(members)
    made = [Value(b.node, 0) for b in members]
    inside = set(made)
    inputs = tuple(dict.fromkeys(value for b in members for value in b.inputs if value not in inside))
    results = tuple([value for value in made if last_reader.get(value, -1) >= end])
    return [Chain(tuple(members), inputs, results, run.function(inputs, results), run.overwrites(inputs, results))]


def over_shape(b: Bound, shape: TensorShape | None) -> bool:
    """Whether its arrays surely have this shape, but for inputs of rank 0."""
    node = b.node
    if not shape or not shape.ndims or not is_surely(node.output_specs[0].shape, shape):
        return False
    inputs = [spec.shape for spec in node.input_specs]
    same = [is_surely(each, shape) for each in inputs]
    return any(same) and all(each.ndims == 0 or alike for each, alike in zip(inputs, same, strict=True))


def is_surely(a: TensorShape, b: TensorShape) -> bool:
    """Whether two shapes are equal in each run."""
    return a is b or (a.is_fully_defined() and a == b)


def fuse_on_gpu(bound: Sequence[Any], wanted: Iterable[Value], xp: Namespace) -> list[Any]:
    """Return the statements with chains of at least two element-wise nodes over one shape as one kernel.

    Args:
        bound: nodes, sources first.
        wanted: the values needed after them.
        xp: CuPy, or its substitute.
    """

    def begin(b: Bound) -> Run | None:
        specs = b.node.output_specs
        run = _GpuRun(xp, specs[0].shape) if specs else None
        return run if run is not None and run.takes(b) else None

    return fuse(bound, wanted, begin)


class _GpuRun(Run):
    """Nodes over one shape, which become one kernel of a GPU."""

    def __init__(self, xp: Namespace, shape: TensorShape) -> None:
        super().__init__()
        self._xp: Final = xp
        self._shape: Final = shape

    def _fits(self, b: Bound) -> bool:
        node = b.node
        dtypes = [spec.dtype for spec in (*node.input_specs, *node.output_specs)]
        return not node.at_home and fusible(node.definition.name, dtypes) and over_shape(b, self._shape)

    def function(self, inputs: Sequence[Value], results: Sequence[Value]) -> ChainFunction:
        """The kernel."""
        made = [Value(b.node, 0) for b in self.members]
        numbers = {value: number for number, value in enumerate([*inputs, *made])}
        links = [ChainLink(b.node.definition.name, [numbers[value] for value in b.inputs]) for b in self.members]
        return _GpuFunction(make_chain_kernel(self._xp, links, len(inputs), [numbers[value] for value in results]))


class _GpuFunction:
    """A chain as one kernel, whose errors do not tell which node they belong to."""

    def __init__(self, kernel: Callable[..., Any]) -> None:
        self._kernel: Final = kernel

    def __call__(self, ctx: Context, *arrays: Array) -> Any:
        return self._kernel(*arrays)

    def failed(self, error: BaseException, arrays: Sequence[Array]) -> Failed | None:
        return None
