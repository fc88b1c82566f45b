"""`af.graph_util`: graphs as plain data, changed: parts of them, variables as constants."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.graph.import_graph_def import import_graph_def as import_graph_def
from aioflow.graph.sub_graphs import extract_sub_graph as extract_sub_graph
from aioflow.graph.sub_graphs import must_run_on_cpu as must_run_on_cpu
from aioflow.graph.sub_graphs import remove_training_nodes as remove_training_nodes
from aioflow.graph.sub_graphs import tensor_shape_from_node_def_name as tensor_shape_from_node_def_name
from aioflow.saved_model.freezing import convert_variables_to_constants as convert_variables_to_constants

__all__ = ["convert_variables_to_constants", "extract_sub_graph", "import_graph_def", "must_run_on_cpu",
    "remove_training_nodes", "tensor_shape_from_node_def_name"]
