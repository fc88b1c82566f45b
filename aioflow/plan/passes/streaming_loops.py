"""Finds the loops that wait for a queue and yet may run as one coroutine.

Node by node, a loop that waits goes on with all that does not need what it waits for, and begins further iterations.
One coroutine takes a third of the time for an iteration, and does one thing after the other. Nobody can tell the
difference if an iteration waits once, all its effects need that wait, and its kernels are light:

    while_loop(lambda i, _: i < n, lambda i, total: (i + 1, total + queue.dequeue()), ...)

With two waits in an iteration, the second one would hold up the first one of the next iteration.

Nor may the coroutine hold up what is around the loop. It begins when it has all inputs: those that the wait does not
need, like the first `total`, must not come after a wait themselves. And it ends with all outputs at once: what else has
an effect must not need only outputs that the wait does not make, like the last `i`.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from aioflow.kernels.control.control_flow import PRIMITIVES
from aioflow.plan import op_cost
from aioflow.plan.passes.demand import is_loop
from aioflow.plan.passes.flow import Block, Flow, Node, Value, sources_before
from aioflow.plan.passes.recover_loops import LIGHT, spans_devices

_QUEUES: Final = frozenset({
    "queue_dequeue", "queue_dequeue_many", "queue_dequeue_up_to", "queue_enqueue", "queue_enqueue_many",
})  # fmt: skip


def streaming_loops(flow: Flow, late: Collection[Node] = (), is_inner: bool = False) -> Iterator[Node]:
    """The loops on one device that may wait for a queue in the coroutine that runs them.

    Args:
        flow: where they are, or are in blocks.
        late: those of its feeds that may come after a wait.
        is_inner: whether it is the flow of a block.
    """
    around = [node for node in flow.nodes if node.blocks and node.waits]
    if not around:
        return
    waiting = [node for node in flow.nodes if _may_wait(node)]
    late = _following(flow.nodes, {*late, *waiting})
    for node in around:
        wait = _only_wait(node)
        if wait is not None and not _is_held_up(node, wait, late) and not _holds_up(node, wait, flow, is_inner):
            yield node
        else:
            for block in node.blocks:
                yield from streaming_loops(block.flow, _late_arguments(node, block, late), True)


def _only_wait(node: Node) -> Node | None:
    """The operation on a queue, if it is a light loop in which nothing else waits, or has an effect before."""
    if not is_loop(node) or spans_devices(node):
        return None
    *conditions, body = node.blocks
    waiting = [each for each in body.flow.nodes if each.waits]
    if any(block.waits or block.effects for block in conditions) or len(waiting) != 1:
        return None
    wait = waiting[0]
    after = _following(body.flow.nodes, {wait})
    may_stream = wait.definition.name in _QUEUES and _is_light(node, wait) and after.issuperset(body.effects)
    return wait if may_stream else None


def _is_light(loop: Node, waiting: Node) -> bool:
    computing = [each for each in loop.everything() if each is not loop and each is not waiting]
    nodes = [*computing, waiting]
    is_known = all(spec.shape.is_fully_defined() for each in nodes for spec in each.output_specs)
    has_loop = any(map(is_loop, computing))
    return is_known and not has_loop and sum(op_cost.seconds(each, each.input_specs) for each in computing) < LIGHT


def _is_held_up(loop: Node, wait: Node, late: Collection[Node]) -> bool:
    """Whether an input that the wait does not need may come late."""
    *conditions, body = loop.blocks
    needed = {wait}
    for node in reversed(body.flow.nodes):
        if node in needed:
            needed.update(sources_before(node))
    places = {place for place, argument in body.arguments.items() if argument in needed}
    places.update(range(loop.attrs["limited"]), *[block.takes for block in conditions])
    return any(value.node in late for place, value in enumerate(loop.inputs) if place not in places)


def _holds_up(loop: Node, wait: Node, flow: Flow, is_inner: bool) -> bool:
    """Whether an effect after the loop may need no output that the wait makes."""
    made = _made_by(loop, wait)
    after = _following(flow.nodes, {loop}) - {loop}
    behind = [node for node in after if loop in node.controls or not made.isdisjoint(node.inputs)]
    early = after - _following(flow.nodes, set(behind))
    ends = [value for value in flow.fetches if value.node in early or (value.node is loop and value not in made)]
    return (is_inner and bool(ends)) or any(node.has_effect or _may_wait(node) for node in early)


def _made_by(loop: Node, wait: Node) -> set[Value]:
    """The outputs of a loop that need the wait. The number of iterations, between variables and records, does not."""
    body, count = loop.blocks[-1].flow, loop.attrs["variables"]
    after = _following(body.nodes, {wait})
    return {Value(loop, at + (at >= count)) for at, value in enumerate(body.fetches) if value.node in after}


def _following(nodes: Iterable[Node], first: set[Node]) -> set[Node]:
    """These first ones, and all nodes that need one of them."""
    found = set(first)
    for node in nodes:
        if any(source in found for source in sources_before(node)):
            found.add(node)
    return found


def _may_wait(node: Node) -> bool:
    return node.waits or node.definition.name in PRIMITIVES


def _late_arguments(node: Node, block: Block, late: Collection[Node]) -> list[Node]:
    """The arguments of a block that may come after a wait; variables of a loop, after one in the last iteration.

    If nothing else waits in it, an inner loop takes its elements in the order of the iterations in any case.
    """
    waits = [each for each in node.everything() if each.waits and not each.blocks]
    variables: Collection[int] = ()
    if is_loop(node) and len(waits) > 1:
        variables = range(node.attrs["limited"], node.attrs["limited"] + node.attrs["variables"])
    given = block.arguments.items()
    return [argument for place, argument in given if place in variables or node.inputs[place].node in late]
