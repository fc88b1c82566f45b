"""`af.graph_util`: graphs as plain data, changed: parts of them, variables as constants."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.graph.import_graph_def": "import_graph_def",
    "aioflow.graph.sub_graphs": (
        "extract_sub_graph must_run_on_cpu remove_training_nodes tensor_shape_from_node_def_name"
    ),
    "aioflow.saved_model.freezing": "convert_variables_to_constants",
})  # fmt: skip
