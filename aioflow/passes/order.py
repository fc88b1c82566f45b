"""Order of one variable's operations: reads and updates run in the order they were built."""

from aioflow.dtypes import ResourceSpec
from aioflow.passes.flow import Flow, Node, Value, sweep


def order(flow: Flow) -> Flow:
    """Control edges added so that an update waits for what was built before it, and later reads wait for the update."""
    if not any(_changes(node) for node in flow.nodes):
        return flow
    moved: dict[Node, Node] = {}
    last_update: dict[tuple[str, str], Node] = {}
    reads: dict[tuple[str, str], list[Node]] = {}
    for node in flow.nodes:
        inputs = tuple([Value(moved[source], index) for source, index in node.inputs])
        before = [moved[control] for control in node.controls]
        keys = _variables(node)
        for key in keys:
            if node.definition.observes:
                before += [last_update[key]] if key in last_update else []
            else:
                before += reads.pop(key, []) or ([last_update[key]] if key in last_update else [])
        controls = tuple(dict.fromkeys(before))
        changed = inputs != node.inputs or controls != node.controls
        made = moved[node] = node.with_edges(inputs, controls) if changed else node
        for key in keys:
            if node.definition.observes:
                reads.setdefault(key, []).append(made)
            else:
                last_update[key] = made
    fetches = tuple([Value(moved[node], index) for node, index in flow.fetches])
    return sweep(flow.feeds, fetches, tuple([moved[node] for node in flow.targets]))


def _changes(node: Node) -> bool:
    return not node.definition.observes and bool(_variables(node))


def _variables(node: Node) -> list[tuple[str, str]]:
    """The variables it works on, by container and name."""
    handles = [
        source for source, index in node.inputs
        if source.definition.name == "variable" and isinstance(source.output_specs[index], ResourceSpec)
    ]  # fmt: skip
    return list(dict.fromkeys((h.attrs["container"], h.attrs["shared_name"] or h.name) for h in handles))
