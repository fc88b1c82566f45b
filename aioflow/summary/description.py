"""`get_summary_description`: how a node of TensorFlow 1 says that its summary is shown."""

import json

from aioflow.kernels.data.node_messages import NodeDef
from aioflow.summary.messages import SummaryDescription
from aioflow.tensors.recursion import safe_repr

_OP = "TensorSummary"
_NAMES = ("typeHint", "type_hint")


def get_summary_description(node_def: NodeDef) -> SummaryDescription:
    """Return the description in a node of the op TensorSummary, which TensorFlow stores as JSON.

    Summaries of aioflow, and newer ones of TensorFlow, have a SummaryMetadata instead.

    Raises:
        TypeError: it is no NodeDef.
        ValueError: it is a node of another op, or has no description.

    Examples:
        >>> description = af.AttrValue(s=b'{"typeHint": "scalar"}')
        >>> node = af.NodeDef(name="loss", op="TensorSummary", attr={"description": description})
        >>> af.summary.get_summary_description(node).type_hint
        'scalar'
    """
    if not isinstance(node_def, NodeDef):
        raise TypeError(f"get_summary_description takes a NodeDef, not {safe_repr(node_def)}")
    if node_def.op != _OP:
        raise ValueError(f"node {node_def.name!r} is of op {node_def.op!r}, and only {_OP} has a description")
    text = node_def.attr["description"].s if "description" in node_def.attr else b""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(k in _NAMES and isinstance(v, str) for k, v in found.items()):
        raise ValueError(f"node {node_def.name!r} has the description {text!r}, which is none in JSON")
    return SummaryDescription(type_hint=next(iter(found.values()), ""))
