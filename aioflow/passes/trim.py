"""What nobody uses of branches and loops is left out: outputs, and inside what only these need.

A gradient has the forward loop record whatever it might need; once its own loop is simplified it needs less. A loop
variable stays if its last value is used, if the condition or another that stays reads it, or if its next value comes
from what has an effect: an effect inside happens whatever is used of the results.

To know what an output needs, a block is reduced to it, and so are the blocks inside. Each reduction of a block is made
once and kept for the whole pass: made anew at every level they would be exponential in the depth.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from aioflow.node import Operation
from aioflow.passes.flow import Block, Flow, Node, Value, has_primitives, sources_before, sweep

_HARMLESS: Final = frozenset({"argument", "absent", "cond", "while_loop", "tensor_array"})
"""Stateful so that they are never merged, but without an effect of their own."""


def trim(flow: Flow) -> Flow:
    """The Flow with no more in branches and loops than is used."""
    return _trim(flow, {})


Reductions = dict[tuple[Block, tuple[int, ...]], Block]
"""Blocks by the block, and the numbers of its outputs, that they are reduced from and to."""


def _trim(flow: Flow, known: Reductions) -> Flow:
    if not any(node.blocks for node in flow.nodes):
        return flow
    used: dict[Node, set[int]] = {}
    for node, index in flow.fetches:
        used.setdefault(node, set()).add(index)
    kept: dict[Node, tuple[Node, list[int]]] = {}
    for node in reversed(flow.nodes):
        kept[node] = _trimmed(node, used.get(node, set()), known)
        for source, index in kept[node][0].inputs:
            used.setdefault(source, set()).add(index)
    return _relinked(flow, kept)


def _relinked(flow: Flow, kept: dict[Node, tuple[Node, list[int]]]) -> Flow:
    """The Flow of the trimmed nodes, each with its outputs that are kept."""
    done: dict[Node, Node] = {}

    def moved(value: Value) -> Value:
        return Value(done[value.node], kept[value.node][1].index(value.index))

    for node in flow.nodes:
        trimmed, _ = kept[node]
        inputs, controls = tuple(map(moved, trimmed.inputs)), tuple([done[control] for control in trimmed.controls])
        same = inputs == trimmed.inputs and controls == trimmed.controls
        done[node] = trimmed if same else trimmed.with_edges(inputs, controls)
    feeds, targets = tuple([done[node] for node in flow.feeds]), tuple([done[node] for node in flow.targets])
    return sweep(feeds, tuple(map(moved, flow.fetches)), targets)


def _trimmed(node: Node, used: Collection[int], known: Reductions) -> tuple[Node, list[int]]:
    """The node with what is used of it, and which of its outputs these are."""
    if not node.blocks:
        return node, list(range(len(node.output_specs)))
    return _branch(node, used, known) if node.definition.name == "cond" else _loop(node, used, known)


def _branch(node: Node, used: Collection[int], known: Reductions) -> tuple[Node, list[int]]:
    wanted = set(used)
    for block in node.blocks:
        wanted |= _for_effects(block, wanted, known)
    outputs = sorted(wanted)
    blocks = [_reduced(block, outputs, known) for block in node.blocks]
    places = sorted({0, *[place for block in blocks for place in block.takes]})
    return _rebuilt(node, places, blocks, outputs, {}), outputs


def _loop(node: Node, used: Collection[int], known: Reductions) -> tuple[Node, list[int]]:
    first, count, replays = (node.attrs[name] for name in ("limited", "variables", "replays"))
    *conditions, body = node.blocks
    records = {index - 1 for index in used if index > count}  # as outputs of the body, which does not count iterations
    live = {index for index in (*used, *_asked(conditions, first, known)) if 0 <= index < count}
    effects = _for_effects(body, live | records, known)
    live |= {index for index in effects if index < count}
    records |= effects - live
    inner = _closed(body, live, records, first, count, known)
    blocks = [*[_reduced(block, [0], known) for block in conditions], inner]
    variables = [first + index for index in sorted(live)]
    others = sorted({place for block in blocks for place in block.takes if place >= first + count})
    attrs = {"variables": len(live), "replays": sum(place < first + count + replays for place in others)}
    outputs = [*sorted(live), count, *[index + 1 for index in sorted(records)]]
    return _rebuilt(node, [*range(first), *variables, *others], blocks, outputs, attrs), outputs


def _asked(conditions: Iterable[Block], first: int, known: Reductions) -> list[int]:
    """The variables that the condition reads, and, with numbers from their end on, what else it does."""
    return [place - first for block in conditions for place in _reduced(block, [0], known).takes]


def _closed(body: Block, live: set[int], records: set[int], first: int, count: int, known: Reductions) -> Block:
    """The body with what is live and recorded alone. What these need of other variables is made live, too."""
    while True:
        inner = _reduced(body, sorted(live | records), known)
        more = {place - first for place in inner.takes if 0 <= place - first < count} - live
        if not more:
            return inner
        live |= more


def unneeded_effects(node: Node, used: Collection[int]) -> list[set[Node]]:
    """For each branch, or for the body of a loop, what has an effect there that these outputs do not need."""
    if node.definition.name == "cond":
        return [_unneeded(block, used) for block in node.blocks]
    first, count = node.attrs["limited"], node.attrs["variables"]
    *conditions, body = node.blocks
    known: Reductions = {}
    live = {index for index in (*used, *_asked(conditions, first, known)) if 0 <= index < count}
    records = {index - 1 for index in used if index > count}
    _closed(body, live, records, first, count, known)
    return [_unneeded(body, live | records)]


def _unneeded(block: Block, outputs: Iterable[int]) -> set[Node]:
    if has_primitives(block.flow):
        return set()  # made by hand: what has an effect may be in a frame of its own
    effects = {node for node in block.flow.nodes if _has_effect(node)}
    return effects - _ancestors([block.flow.fetches[index].node for index in outputs]) if effects else effects


def _rebuilt(node: Node, places: list[int], blocks: Iterable[Block], outputs: list[int], attrs: dict[str, int]) -> Node:
    """The node with the inputs of these places and these outputs alone."""
    moved = [Block(block.flow, tuple([places.index(place) for place in block.takes])) for block in blocks]
    return Node(
        node.operation, node.definition, node.name, tuple([node.inputs[place] for place in places]), node.controls,
        {**node.attrs, **attrs}, [node.output_specs[index] for index in outputs], tuple(moved),
    )  # fmt: skip


def _reduced(block: Block, outputs: Sequence[int], known: Reductions) -> Block:
    """The block with these outputs alone, and the arguments they need."""
    key = block, tuple(outputs)
    found = known.get(key)
    if found is None:
        found = known[key] = _reduce(block, outputs, known)
    return found


def _reduce(block: Block, outputs: Sequence[int], known: Reductions) -> Block:
    fetches = tuple([block.flow.fetches[index] for index in outputs])
    needed = _ancestors([value.node for value in fetches])
    pairs = [(node, place) for node, place in zip(block.flow.feeds, block.takes, strict=True) if node in needed]
    flow = sweep(tuple([node for node, _ in pairs]), fetches, ())
    return Block(_trim(flow, known), tuple([place for _, place in pairs]))


def _ancestors(roots: Iterable[Node]) -> set[Node]:
    found: set[Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(sources_before(node))
    return found


def _for_effects(block: Block, wanted: Collection[int], known: Reductions) -> set[int]:
    """More outputs of a block, so that all that has an effect in it is still needed when the rest is left out."""
    missing = _effects(block.flow)
    if missing:
        missing -= _effects(_reduced(block, sorted(wanted), known).flow)
    more = set()
    for index in range(len(block.flow.fetches)):
        covered = missing & _effects(_reduced(block, [index], known).flow) if missing else set()
        if covered:
            more.add(index)
            missing -= covered
    return more


def _effects(flow: Flow) -> set[Operation]:
    return {node.operation for node in flow.nodes if _has_effect(node)}


def _has_effect(node: Node) -> bool:
    own = node.definition
    return any(_has_effect(inner) for block in node.blocks for inner in block.flow.nodes) or (
        own.stateful and not own.observes and not own.counted and own.name not in _HARMLESS
    )


__all__ = ["trim", "unneeded_effects"]
