"""Variables as constants: the operations that some outputs need, with the values that variables have in a session."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow.graph.graphdef import BodyDef, GraphDef, NodeDef
from aioflow.graph.sub_graphs import extract_sub_graph
from aioflow.saved_model.export import reads
from aioflow.session import Session
from aioflow.tensors.dtypes import Array
from aioflow.tensors.recursion import safe_repr


async def convert_variables_to_constants(
    sess: Session,
    input_graph_def: GraphDef,
    output_node_names: Sequence[str],
    variable_names_whitelist: Collection[str] | None = None,
    variable_names_blacklist: Collection[str] | None = None,
) -> GraphDef:
    """Return the operations that the outputs need, in which constants hold the values of variables in a session.

    Args:
        sess: the session, in whose graph the variables have the same names.
        input_graph_def: the operations.
        output_node_names: the names of the operations whose values are wanted.
        variable_names_whitelist: the names of the variables to convert; all by default.
        variable_names_blacklist: the names of variables that stay.

    Raises:
        ValueError: a name is not there, or an output needs an update of a variable, which a constant has not.
        FailedPreconditionError: a variable has no value.

    Examples:
        >>> weight = af.Variable(2.0, name="weight")
        >>> y = af.multiply(weight, 3.0, name="y")
        >>> await session.run(weight.initializer)
        >>> nodes = session.graph.as_graph_def()
        >>> frozen = await af.graph_util.convert_variables_to_constants(session, nodes, ["y"])
        >>> with af.Graph().as_default() as graph:
        ...     (y,) = af.import_graph_def(frozen, return_elements=["y:0"], name="")
        >>> async with af.Session(graph=graph) as other:
        ...     print(await other.run(y))
        6.0
    """
    if not isinstance(sess, Session):
        raise TypeError(f"the values of variables are those of an af.Session, not of {safe_repr(sess)}")
    needed = extract_sub_graph(input_graph_def, output_node_names)
    names = [node.name for node in needed.node if node.op == "variable"]
    chosen = {name for name in names if variable_names_whitelist is None or name in variable_names_whitelist}
    chosen -= set(variable_names_blacklist or ())
    handles = {name: sess.graph.get_operation_by_name(name) for name in names if name in chosen}
    values: dict[str, Any] = await sess.run(reads(handles)) if handles else {}
    return extract_sub_graph(_frozen(needed, values), output_node_names)


def _frozen(graph_def: GraphDef, values: Mapping[str, Any]) -> GraphDef:
    constants = [
        NodeDef(node.name, "constant", attr={"value": _fixed(values[node.name])}, device=node.device, line=node.line)
        if node.name in values
        else node
        for node in graph_def.node
    ]
    return GraphDef(tuple([_reading(node, values) for node in constants]))


def _fixed(value: Any) -> Array:
    """Return a copy as an array that nothing changes."""
    made = np.array(value)
    made.flags.writeable = False
    return made


def _reading(node: NodeDef, frozen: Collection[str]) -> NodeDef:
    """Return an operation that reads variables as one that reads constants, by the names of those that are constants.

    ValueError if it does anything else with one of them.
    """
    places = [place for place, (name, index) in enumerate(node.sources) if index >= 0 and name in frozen]
    if not places or node.op == "constant":
        return node
    if node.op in _READS:
        return dataclasses.replace(node, op=_READS[node.op])
    bodies = {name: value for name, value in node.attr.items() if isinstance(value, BodyDef)}
    own = node.attr.get("limited", 0) + node.attr.get("variables", 0)
    if not bodies or min(places) < own:
        raise ValueError(
            f"{node.name!r} ({node.op}) needs the variable {node.sources[places[0]][0]!r} itself, which becomes a "
            "constant: leave it out of the outputs, or put the variable on the blacklist"
        )
    return dataclasses.replace(node, attr={**node.attr, **{k: _inside(body, places) for k, body in bodies.items()}})


_READS: Final = {"read_variable": "identity", "gather_variable": "gather"}


def _inside(body: BodyDef, places: Collection[int]) -> BodyDef:
    """Return a body whose operation has constants as the inputs at these places."""
    frozen = {name for name, place in zip(body.arguments, body.takes, strict=True) if place in places}
    return dataclasses.replace(body, node=tuple([_reading(node, frozen) for node in body.node]))
