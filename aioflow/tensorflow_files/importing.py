"""`import_graph_def`: a graph of TensorFlow in a file or bytes into the default graph."""

from collections.abc import Mapping, Sequence
from typing import Any

from aioflow.files.filesystem import Path
from aioflow.graph.building import get_default_graph
from aioflow.graph.convert import convert_to_tensor
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensorflow_files.build import Builder, Scope
from aioflow.tensorflow_files.missing import check_ops
from aioflow.tensorflow_files.nodes import GraphFile
from aioflow.tensorflow_files.ordering import needed
from aioflow.tensorflow_files.reading import read_graph, source_of
from aioflow.tensorflow_files.references import value_of


def import_graph_def(
    graph_def: Path,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] | None = None,
    name: str | None = None,
) -> list[Tensor | Operation] | None:
    """Add the operations of a graph of TensorFlow to the default graph, or none if one cannot be built.

    The operations and tensors keep TensorFlow's names, below the name scope. Those that a name stands for may be
    several of aioflow's; the others lie in the scope `parts` of the name. Devices are not kept: a `with af.device(...)`
    around the call places all operations. Variables have no values yet. Blocks while it reads the file.

    Args:
        graph_def: the path of a file with a `GraphDef` of TensorFlow in binary form, such as a frozen graph (`.pb`), or
            its bytes.
        input_map: replacements of outputs: tensors for `op:index`, which the graph must have.
        return_elements: names in the graph_def of tensors and operations to return. Then only these are built, with
            all that they need.
        name: the name scope of the added operations, "import" by default; "" for none.

    Returns:
        The list of these elements, or None if `return_elements` is None.

    Raises:
        DataLossError: the bytes are no graph of TensorFlow, or are damaged.
        InvalidArgumentError: the graph has a cycle outside of its loops, or functions that call themselves.
        NotFoundError: there is no such file.
        UnimplementedError: there are ops that aioflow does not have, all of which the error lists.
        ValueError, TypeError: an operation does not fit its inputs, or a name is not found.

    Examples:
        >>> x = "0a1d0a0178120b506c616365686f6c6465722a0b0a056474797065120230010a"
        >>> graph_def = bytes.fromhex(x + "0c0a0179120452656c751a0178")  # written by TensorFlow
        >>> x, y = af.tensorflow_files.import_graph_def(graph_def, return_elements=["x:0", "y:0"])
        >>> await session.run(y, {x: [-1.0, 2.0]})
        array([0., 2.], dtype=float32)
    """
    file = read_graph(graph_def)
    wanted = None if return_elements is None else [_element(text, file) for text in return_elements]
    mapped = {_output(text, file): convert_to_tensor(value) for text, value in (input_map or {}).items()}
    graph = get_default_graph()
    with graph.transaction(), graph.name_scope("import" if name is None else name) as prefix:
        scope = build_graph(graph, file, prefix, None if wanted is None else [each for each, _ in wanted], mapped)
        return None if wanted is None else [_found(scope, *each) for each in wanted]


def build_graph(
    graph: Graph,
    file: GraphFile,
    prefix: str,
    wanted: Sequence[str] | None = None,
    mapped: Mapping[tuple[str, int], Tensor] | None = None,
) -> Scope:
    """Build the nodes of a graph, or those that the wanted ones need. Raises the errors of `import_graph_def`."""
    nodes = file.nodes if wanted is None else needed(file.nodes, wanted)
    check_ops(GraphFile(nodes, file.functions))
    scope = Scope(prefix, nodes, {})
    Builder(file.functions).run(scope, mapped or {})
    return scope


def _output(text: str, file: GraphFile) -> tuple[str, int]:
    source = source_of(text, "input_map")
    if source.node not in file.nodes:
        raise ValueError(f"input_map has {text!r}, which is not in the graph_def")
    return source.node, source.place


def _element(text: str, file: GraphFile) -> tuple[str, int | None]:
    """The node of a name, and the number of its output; None for the operation."""
    source = source_of(text, "return_elements")
    if source.node not in file.nodes:
        raise ValueError(f"return_elements has {text!r}, which is not in the graph_def")
    return source.node, source.place if ":" in text else None


def _found(scope: Scope, node: str, place: int | None) -> Tensor | Operation:
    if place is None:
        if node not in scope.done:
            raise ValueError(f"return_elements has {node!r}, which is no operation of aioflow")
        return scope.done[node]
    outputs = scope.values[node]
    made = value_of(outputs[place]) if place < len(outputs) else None
    if made is None:
        raise ValueError(f"return_elements has output {place} of {node!r}, which aioflow does not make")
    return made
