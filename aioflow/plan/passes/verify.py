"""Checks the rules of a legal flow, which hold after every pass."""

from aioflow import errors
from aioflow.plan.passes.flow import Flow, Node, is_back_edge


def verify(flow: Flow) -> Flow:
    """The Flow itself. InternalError naming the node that breaks a rule."""
    seen: set[Node] = set()
    back: list[tuple[Node, Node]] = []
    for node in flow.nodes:
        for source, index in node.inputs:
            if is_back_edge(source, node):
                back.append((node, source))
            else:
                _require(source in seen, node, f"input {source.name!r} comes later or is missing")
            _require(0 <= index < len(source.output_specs), node, f"{source.name!r} has no output {index}")
        for control in node.controls:
            _require(control in seen, node, f"control input {control.name!r} comes later or is missing")
        _require(node not in seen, node, "it occurs twice")
        seen.add(node)
    for node, source in back:
        _require(source in seen, node, f"input {source.name!r} is missing")
    ends = [*[value.node for value in flow.fetches], *flow.targets, *flow.feeds]
    for node in ends:
        _require(node in seen, node, "it is fetched, run or fed, and not in the flow")
    return flow


def _require(holds: bool, node: Node, broken: str) -> None:
    if not holds:
        raise errors.InternalError(f"the plan is not legal at {node!r}: {broken}")
