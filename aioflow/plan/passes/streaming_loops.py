"""Finds the loops that wait for a queue and yet may run as one coroutine.

Node by node, a loop that waits goes on with all that does not need what it waits for, and begins further iterations.
One coroutine takes a third of the time for an iteration, and does one thing after the other. Nobody can tell the
difference if an iteration waits once, all its effects need that wait, and its kernels are light:

    while_loop(lambda i, _: i < n, lambda i, total: (i + 1, total + queue.dequeue()), ...)

With two waits in an iteration, the second one would hold up the first one of the next iteration.
"""

from typing import Final

from aioflow.plan import op_cost
from aioflow.plan.passes.flow import Block, Node, sources_before
from aioflow.plan.passes.recover_loops import LIGHT, spans_devices

_QUEUES: Final = frozenset({
    "queue_dequeue", "queue_dequeue_many", "queue_dequeue_up_to", "queue_enqueue", "queue_enqueue_many",
})  # fmt: skip


def is_streaming(node: Node) -> bool:
    """Whether it is a loop on one device that may wait for a queue in the coroutine that runs it."""
    if node.definition.name != "while_loop" or spans_devices(node):
        return False
    *conditions, body = node.blocks
    waiting = [each for each in body.flow.nodes if each.waits]
    if any(block.waits for block in conditions) or len(waiting) != 1 or waiting[0].definition.name not in _QUEUES:
        return False
    return _is_light(node, waiting[0]) and _effects_need(body, waiting[0])


def _is_light(loop: Node, waiting: Node) -> bool:
    computing = [each for each in loop.everything() if each is not loop and each is not waiting]
    nodes = [*computing, waiting]
    is_known = all(spec.shape.is_fully_defined() for each in nodes for spec in each.output_specs)
    has_loop = any(each.definition.name == "while_loop" for each in computing)
    return is_known and not has_loop and sum(op_cost.seconds(each, each.input_specs) for each in computing) < LIGHT


def _effects_need(body: Block, waiting: Node) -> bool:
    """Whether all other effects of an iteration come after the wait."""
    after = {waiting}
    for node in body.flow.nodes:
        if any(source in after for source in sources_before(node)):
            after.add(node)
    return all(node in after for node in body.effects)
