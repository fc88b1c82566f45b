"""The lookup tables of a saved model.

A table whose content an initializer gives is saved as that initializer, which runs again when the model is loaded. The
vocabulary file that it reads is an asset of the model. A table that steps change is saved as its keys and values, two
tensors beside the values of variables.
"""

import dataclasses
import os
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import numpy as np

from aioflow.files.filesystem import Files
from aioflow.graph.convert import constant_value
from aioflow.graph.effects import STATES
from aioflow.graph.graphdef import GraphDef, NodeDef
from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.constants import placeholder
from aioflow.kernels.state.lookup_tables import MutableSpec, StaticSpec, lookup_table_export, lookup_table_import
from aioflow.kernels.state.readers import text_of
from aioflow.resources.vocabulary_files import read_columns
from aioflow.tensors.dtypes import Array

_FROM_FILE: Final = "initialize_table_from_text_file"
_INITIALIZERS: Final = frozenset({"initialize_table", _FROM_FILE})
_STRANGE: Final = re.compile(r"[^A-Za-z0-9_.\-]|^[.\-]")


def changing(operations: Iterable[Operation]) -> list[Operation]:
    """Return the handles of tables that steps change."""
    return [each for each in operations if each.type in STATES and isinstance(each.outputs[0].spec, MutableSpec)]


def initializers(operations: Iterable[Operation]) -> list[Operation]:
    """Return the operations that give the other tables their content."""
    static = [each for each in operations if each.type in STATES and isinstance(each.outputs[0].spec, StaticSpec)]
    return [each for handle in static for each in handle.outputs[0].consumers() if each.type in _INITIALIZERS]


def vocabulary_files(operations: Iterable[Operation]) -> dict[str, str]:
    """Return the file that each constant names for an initializer, by the name of the constant.

    ValueError if an initializer reads a file that no constant names.
    """
    found = {}
    for operation in operations:
        if operation.type == _FROM_FILE:
            name = constant_value(operation.inputs[1])
            if name is None or operation.inputs[1].op.type != "constant":
                raise ValueError(
                    f"{operation.name!r} reads the file that {operation.inputs[1].name!r} names, which is no constant: "
                    "a saved model needs the file itself, so give its path to the initializer"
                )
            found[operation.inputs[1].op.name] = os.fsdecode(text_of(name))
    return found


def asset_names(paths: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """Return a name for each file, its own if possible: none of those that are taken, and no name twice."""
    found: dict[str, str] = {}
    for path in paths:
        if path not in found:
            own = name = _STRANGE.sub("_", os.path.basename(path))[-180:] or "vocabulary"
            number = 0
            while name in taken or name in found.values():
                number += 1
                name = f"{number}_{own}"
            found[path] = name
    return found


def with_files(graph_def: GraphDef, files: Mapping[str, str]) -> GraphDef:
    """Return the operations with these paths as the values of constants, by the names of the constants."""
    nodes = []
    for node in graph_def.node:
        if node.name in files:
            value = np.empty((), object)
            value[()] = os.fsencode(files[node.name])
            value.flags.writeable = False
            node = dataclasses.replace(node, attr={**node.attr, "value": value})
        nodes.append(node)
    return GraphDef(tuple(nodes))


def with_content(graph_def: GraphDef, constants: Collection[str]) -> GraphDef:
    """Return the operations with the content of the files that these constants name, for tasks without the files.

    Blocks. Raises as `initialize_table_from_text_file` if a file is none for its table.
    """
    by_name = {node.name: node for node in graph_def.node}
    nodes: list[NodeDef] = []
    for node in graph_def.node:
        reads = node.op == _FROM_FILE and node.input[1] in constants
        nodes += _with_content(node, by_name) if reads else [node]
    return GraphDef(tuple(nodes))


def _with_content(node: NodeDef, by_name: Mapping[str, NodeDef]) -> list[NodeDef]:
    table, file, attr = by_name[node.input[0]], by_name[node.input[1]], node.attr
    columns = [(attr[f"{part}_index"], table.attr[f"{part}_dtype"]) for part in ("key", "value")]
    lines = attr["vocab_size"], attr["delimiter"].encode(), attr["offset"]
    arrays = read_columns(Files(), os.fsdecode(text_of(file.attr["value"])), columns, *lines)
    made = [
        dataclasses.replace(file, name=f"{node.name}/{part}_of_file", attr={"value": array})
        for part, array in zip(("keys", "values"), arrays, strict=True)
    ]
    inputs = (node.input[0], *[each.name for each in made], *node.input[2:])
    return [*made, dataclasses.replace(node, op="initialize_table", input=inputs, attr={})]


def stored_names(table: str) -> tuple[str, str]:
    """Return the names of the two tensors that have the keys and the values of a table that steps change."""
    return f"{table}-keys", f"{table}-values"


def exports(tables: Mapping[str, Operation]) -> dict[str, Tensor]:
    """Return the keys and values of tables that steps change, by the names that they are stored under."""
    found: dict[str, Tensor] = {}
    for name, handle in tables.items():
        graph = handle.graph
        with graph.as_default(), graph.control_dependencies(None), graph.colocate_with(handle, ignore_existing=True):
            found |= zip(stored_names(name), lookup_table_export(handle.outputs[0]), strict=True)
    return found


def build_import(handle: Tensor, keys: Array, values: Array) -> Operation:
    """Build the operation that gives a table the keys and values that are fed to it.

    ValueError if these do not fit the table.
    """
    key, value = MutableSpec.check(handle.spec).items
    for array, item in ((keys, key), (values, value)):
        if array.dtype != item.dtype.np or array.ndim == 0 or list(array.shape[1:]) != item.shape.as_list():
            stored = f"{array.dtype}{list(array.shape)}"
            raise ValueError(f"table {handle.op.name!r} has {item} for each key, and not {stored}")
    if len(keys) != len(values):
        raise ValueError(f"table {handle.op.name!r} has {len(keys)} keys and {len(values)} values")
    with handle.graph.colocate_with(handle, ignore_existing=True):
        fed = [placeholder(item.dtype, [None, *item.shape.as_list()]) for item in (key, value)]
        return lookup_table_import(handle, *fed, name=f"{handle.op.name}/import")
