"""Chooses the kernels of a GPU's region that are launched together, as a CUDA graph; see `devices.cuda_graph`.

Such a kernel is a function of arrays in the GPU's memory, of their shapes and of values known before any step: it takes
no Context, has no state, draws no random numbers, reads no other value of the host that a step makes, and waits for
nothing. Shapes choose the graph, so what depends on them alone is computed once, at the capture.

A result that may share memory with an input of the group, such as a view of it, is copied within the group: the graph
could hand out only the memory of the input that it was captured with.

Kernels with an effect keep their order, and every kernel comes after the values that it reads. Within that freedom the
kernels launched together are as many as possible: those that need none of them come before, such as reads of variables,
and all others after, such as updates of variables.
"""

import dataclasses
import math
from collections.abc import Callable, Container, Coroutine, Iterable, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.devices.cuda_graph import GraphLauncher
from aioflow.devices.gpu import Gpu
from aioflow.kernels.context import Context
from aioflow.plan.passes.flow import Node, Value
from aioflow.program.blocks import Statement
from aioflow.program.error_location import Finder
from aioflow.program.fuse import Bound, Chain
from aioflow.tensors.dtypes import GPU_DTYPES, Array, DeviceKind

FEWEST: Final = 4
"""The fewest kernels for which one launch pays: a launch of a graph takes about as long as two kernels' launches."""
_SIZES: Final = frozenset({"rank", "shape", "shape_n", "size"})
"""Ops whose results depend on the shapes of their inputs alone."""
Begin = Callable[..., Coroutine[Any, Any, Sequence[Array]]]
"""(context, *inputs) -> a coroutine of the results."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LaunchGroup:
    """Kernels that are launched together, as one statement.

    Attributes:
        members: the statements in order.
        inputs: the values that they read from outside, but for those known before any step.
        results: the values that others need.
        shared: the numbers of the results that may share memory with an input.
        launcher: launches them.
    """

    members: tuple[Bound | Chain, ...]
    inputs: tuple[Value, ...]
    results: tuple[Value, ...]
    shared: frozenset[int]
    launcher: GraphLauncher
    takes_context = True
    fresh = True
    out = False

    @property
    def nodes(self) -> Sequence[Node]:
        """Its nodes."""
        return [node for member in self.members for node in member.nodes]

    @property
    def node(self) -> Node:
        """The node that stands for all of them in errors of a launch."""
        return self.members[-1].node

    def begin_with(self, one_by_one: Begin, find: Finder) -> Begin:
        """Return a function like `one_by_one`, which launches the kernels together where that is possible.

        `find` finds the node that raised an error.
        """
        launch, shared = self.launcher.launch, self.shared

        def begin(ctx: Context, *inputs: Array) -> Coroutine[Any, Any, Sequence[Array]]:
            def kernels(*arrays: Array) -> Sequence[Array]:
                try:
                    results = _without_pause(one_by_one(ctx, *arrays), ctx)
                except Exception as error:
                    raise _named(error, find) from error
                return [each.copy() if number in shared else each for number, each in enumerate(results)]

            results = launch(kernels, inputs)
            return one_by_one(ctx, *inputs) if results is None else _finished(results)

        return begin


RegionStatement = Statement | LaunchGroup
"""A statement of a region."""


def launch_together(
    statements: Sequence[Any], wanted: Iterable[Value], literals: Container[Value], gpu: Gpu
) -> list[Any]:
    """Return the statements with kernels that can be launched together in groups.

    Args:
        statements: the statements of a region of the GPU, sources first.
        wanted: the values needed after them.
        literals: the values known before any step.
        gpu: the GPU.
    """
    found: list[Any] = []
    wanted = set(wanted)
    left = list(statements)
    while left:
        before, chosen, left = _split(left, literals)
        found += before
        if sum(map(_launches, chosen)) < FEWEST:
            found += chosen
        else:
            read = wanted.union(*[statement.inputs for statement in left])
            found.append(_group(chosen, read, literals, gpu))
    return found


def _split(statements: Sequence[Any], literals: Container[Value]) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the statements to run before a group, the group, and those to run after it."""
    before: list[Any] = []
    chosen: list[Any] = []
    after: list[Any] = []
    in_group: set[Node] = set()
    later: set[Node] = set()
    for statement in statements:
        sources = _sources(statement)
        joins = _depends_on_arrays_only(statement, literals)
        if joins and not _launches(statement):
            joins = not sources.isdisjoint(in_group)
        if not sources.isdisjoint(later) or not (joins or (sources.isdisjoint(in_group) and not after)):
            after.append(statement)
            later.update(statement.nodes)
        elif joins:
            chosen.append(statement)
            in_group.update(statement.nodes)
        else:
            before.append(statement)
    return before, chosen, after


def _sources(statement: Any) -> set[Node]:
    """The nodes that must have run before it."""
    nodes = statement.nodes if isinstance(statement, (Bound, Chain)) else [statement.node]
    return {value.node for value in statement.inputs} | {control for node in nodes for control in node.controls}


def _launches(statement: Any) -> bool:
    """Whether it launches a kernel. A view does not, and neither does a size."""
    return statement.fresh and not (isinstance(statement, Bound) and _depends_on_shapes(statement.node))


def _depends_on_arrays_only(statement: Any, literals: Container[Value]) -> bool:
    if not isinstance(statement, Bound):
        return isinstance(statement, Chain)
    node, kernel = statement.node, statement.kernel
    if kernel.context or kernel.asynchronous or not node.pure or not node.output_specs:
        return False
    if _depends_on_shapes(node):
        return True
    if kernel.kind is not DeviceKind.GPU or any(node.definition.host_outputs(len(node.output_specs))):
        return False
    if any(value not in literals and not _depends_on_shapes(value.node) for value in _on_host(node)):
        return False
    return all(spec.dtype in GPU_DTYPES for spec in (*node.input_specs, *node.output_specs))


def _depends_on_shapes(node: Node) -> bool:
    """Whether its results are in host memory and depend on shapes alone."""
    return node.definition.name in _SIZES


def _on_host(node: Node) -> list[Value]:
    hosts = node.definition.host_inputs(len(node.inputs))
    return [value for value, host in zip(node.inputs, hosts, strict=True) if host]


def _group(
    chosen: Sequence[Bound | Chain], read: Container[Value], literals: Container[Value], gpu: Gpu
) -> LaunchGroup:
    made = [value for member in chosen for value in member.results]
    inside = set(made)
    inputs = [value for member in chosen for value in member.inputs if value not in inside and value not in literals]
    results = [value for value in made if value in read]
    names = [member.node.name for member in (chosen[0], chosen[-1])]
    return LaunchGroup(
        tuple(chosen),
        tuple(dict.fromkeys(inputs)),
        tuple(results),
        frozenset([number for number, value in enumerate(results) if value in _shared(chosen)]),
        GraphLauncher(gpu, f"{len(chosen)} kernels from {names[0]!r} to {names[1]!r}"),
    )


def _shared(chosen: Sequence[Bound | Chain]) -> set[Value]:
    """Return the values of a group that may share memory with an input of the group."""
    own: set[Value] = set()
    shared: set[Value] = set()
    for member in chosen:
        alone = member.fresh or all(value in own for value in member.inputs)
        (own if alone else shared).update(member.results)
    return shared


def _without_pause(coroutine: Coroutine[Any, Any, Sequence[Array]], ctx: Context) -> Sequence[Array]:
    """Return the results of a coroutine that must not give up its slice of time."""
    due, ctx.due = ctx.due, math.inf
    try:
        coroutine.send(None)
    except StopIteration as done:
        results: Sequence[Array] = done.value
        return results
    finally:
        ctx.due = due
        coroutine.close()
    raise errors.InternalError("kernels that never wait were suspended")


def _named(error: Exception, find: Finder) -> Exception:
    """Return an error with the name of the node that raised this one."""
    found = find(error)
    return RuntimeError(f"{'a kernel' if found is None else repr(found[0].name)}: {error}")


async def _finished(results: Sequence[Array]) -> Sequence[Array]:
    return results
