"""Whether a device loses nothing if it runs its share of a loop as one coroutine, although kernels are heavy.

Node by node, a device goes on with all that is ready while it waits for a value, and begins further iterations. One
coroutine does one thing after the other. It loses nothing if no heavy kernel waits for a receive that it does not need,
and no send waits for a heavy kernel or a receive that it does not need, in the same iteration and in the one before.

    in the order of an iteration                 needs
    recv r, heavy h, send s                      h: r; s: h and r
    send s, recv r, heavy h                      h: r; s: h and r of the iteration before, by a loop variable

A value that depends on light nodes alone is exempt from the second rule: node by node it could be sent an iteration
early, but the other device then only begins its iterations earlier than this one. For the same reason the condition may
wait.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from aioflow.plan import op_cost
from aioflow.plan.passes.compress import same_task
from aioflow.plan.passes.flow import Node, sources_before
from aioflow.plan.passes.loop_sections import is_loop_switch
from aioflow.rendezvous import PUSHED

_MOST: Final = 10_000
"""Nodes times loop variables: beyond, the search for what each node needs would take longer than it saves."""


def loses_nothing(condition: Sequence[Node], body: Sequence[Node], again: Mapping[Node, Node]) -> bool:
    """Whether no device waits longer than node by node.

    Args:
        condition: the nodes of the condition, in the order of the coroutine.
        body: those of the body.
        again: for each loop variable, the node that makes its value for the next iteration.
    """
    if len(body) * (1 + len(again)) > _MOST:
        return False
    if any(map(_is_heavy, condition)) or not all(map(_comes_early, body)):
        return False
    return _Needs(body, again).are_met()


def _is_heavy(node: Node) -> bool:
    """Whether a kernel may be worth a thread."""
    if node.definition.name in ("send", "recv"):
        return False
    is_known = all(spec.shape.is_fully_defined() for each in node.everything() for spec in each.output_specs)
    seconds = sum(op_cost.seconds(each, each.input_specs) for each in node.everything())
    return not is_known or seconds > op_cost.BIG_KERNEL


def _comes_early(node: Node) -> bool:
    """Whether a received value comes without a request, so that it need not be awaited early."""
    if node.definition.name != "recv":
        return True
    return node.attrs["edge"].startswith(PUSHED) or same_task(node.attrs["source"], node.attrs["target"])


class _Needs:
    """The receives and heavy kernels that each node of a body needs, in its iteration and in the one before.

    Credits do not count: they only keep a device from being far ahead.
    """

    def __init__(self, body: Sequence[Node], again: Mapping[Node, Node]) -> None:
        self._body: Final = body
        self._again: Final = again
        self._marked: Final = [node for node in body if _is_heavy(node) or _is_awaited(node)]
        self._place: Final = {node: place for place, node in enumerate(body)}
        self._now: dict[Node, frozenset[Node]] = {}
        self._before: dict[Node, frozenset[Node]] = {}

    def are_met(self) -> bool:
        """Whether heavy kernels and sends need all that comes before them."""
        self._find()
        return all(self._is_met(node) for node in self._body if _is_heavy(node) or _is_sent(node))

    def _find(self) -> None:
        """Follow the edges until nothing changes: a variable needs what its value of the iteration before needs."""
        carried: dict[Node, frozenset[Node]] = dict.fromkeys(self._again, frozenset())
        while True:
            self._now, self._before = dict.fromkeys(self._again, frozenset()), dict(carried)
            for node in self._body:
                sources = [source for source in map(_unswitched, sources_before(node)) if source in self._now]
                own = frozenset([node] if node in self._marked else ())
                self._now[node] = own.union(*[self._now[source] for source in sources])
                self._before[node] = frozenset().union(*[self._before[source] for source in sources])
            following = {
                variable: self._now.get(source, frozenset()) | self._before.get(source, frozenset())
                for variable, source in self._again.items()
            }
            if following == carried:
                return
            carried = following

    def _is_met(self, node: Node) -> bool:
        """Whether a heavy kernel or a send needs what comes before it, as far as that could delay it."""
        is_send = _is_sent(node)
        if is_send and not self._now[node] and not self._before[node]:
            return all(self._place[each] > self._place[node] for each in self._marked)
        delaying = [each for each in self._marked if each is not node and (is_send or _is_awaited(each))]
        return all(
            each in (self._now[node] if self._place[each] < self._place[node] else self._before[node])
            for each in delaying
        )


def _unswitched(node: Node) -> Node:
    """The variable of a loop, for its value in the body."""
    return node.inputs[0].node if is_loop_switch(node) else node


def _is_sent(node: Node) -> bool:
    return node.definition.name == "send" and not node.attrs["window"]


def _is_awaited(node: Node) -> bool:
    return node.definition.name == "recv" and not node.attrs["window"]
