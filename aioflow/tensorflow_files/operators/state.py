"""Variables, the steps of optimizers on them, and lookup tables."""

from typing import Any

from aioflow.graph.building import get_default_graph
from aioflow.graph.op import REGISTRY
from aioflow.graph.operation import Operation, Tensor
from aioflow.graph.scopes import scope_of
from aioflow.kernels.array.constants import no_op
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.state import lookup_tables as tables
from aioflow.kernels.state import variables
from aioflow.tensorflow_files.call import Call
from aioflow.tensorflow_files.references import Reference, Value, handle_of, value_of
from aioflow.tensorflow_files.registry import Build, operator, same
from aioflow.tensors.dtypes import SCALAR, UNKNOWN, int32

same("ReadVariableOp=read_variable VarIsInitializedOp=is_variable_initialized")


def _place(call: Call) -> tuple[str, str]:
    """The container of state, and the name that it is shared under; empty if that is the node's own name."""
    given, own = call.text("shared_name", ""), call.node.name
    container = scope_of(get_default_graph()).container
    return container, "" if given in ("", own) else call.name.removesuffix(f"{own}/") + given


@operator("Variable", "VariableV2")
def _(call: Call) -> Reference:
    return Reference(_variable(call))


@operator("VarHandleOp")
def _(call: Call) -> Tensor:
    return _variable(call)


def _variable(call: Call) -> Tensor:
    spec = call.dtype("dtype"), call.shape("shape", UNKNOWN)
    return variables.variable(*spec, *_place(call), name=call.name)


@operator("IsVariableInitialized", references=True)
def _(call: Call, variable: Value) -> Tensor:
    return variables.is_variable_initialized(handle_of(variable), name=call.name)


@operator("VariableShape")
def _(call: Call, handle: Tensor) -> Tensor:
    return shape(variables.read_variable(handle), name=call.name, out_type=call.dtype("out_type", int32))


@operator("ResourceGather")
def _(call: Call, handle: Tensor, indices: Tensor) -> Tensor:
    if call.integer("batch_dims", 0):
        raise ValueError("rows of variables are taken without batch_dims")
    return variables.gather_variable(handle, indices, name=call.name)


@operator("DestroyResourceOp", "DisableCopyOnRead")
def _(call: Call, handle: Tensor) -> Operation:
    return no_op(name=call.name)


# Changes


def _change(name: str) -> Build:
    """A change of a variable of TensorFlow 1, whose output is the changed variable."""

    def build(call: Call, variable: Value, *given: Value) -> Reference:
        handle = handle_of(variable)
        return Reference(handle, REGISTRY[name](handle, *map(value_of, given), name=call.name))

    return build


def _resource_change(name: str) -> Build:
    """A change of a variable of TensorFlow 2, without output."""

    def build(call: Call, *given: Tensor) -> Operation:
        made: Operation = REGISTRY[name](*given, name=call.name).op
        return made

    return build


for _op, _resource_op, _name in (
    ("Assign", "AssignVariableOp", "assign_variable"),
    ("AssignAdd", "AssignAddVariableOp", "assign_add_variable"),
    ("AssignSub", "AssignSubVariableOp", "assign_sub_variable"),
    ("ScatterUpdate", "ResourceScatterUpdate", "scatter_update_variable"),
    ("ScatterAdd", "ResourceScatterAdd", "scatter_add_variable"),
    ("ScatterSub", "ResourceScatterSub", "scatter_sub_variable"),
):
    operator(_op, references=True)(_change(_name))
    operator(_resource_op)(_resource_change(_name))


# Steps of optimizers

_VARIABLES = {
    "GradientDescent": 1, "Momentum": 2, "Adagrad": 2, "Adadelta": 3, "Adam": 3, "RMSProp": 3,
}  # fmt: skip
"""How many of the first inputs are variables."""
_NAMES = {
    "GradientDescent": "apply_gradient_descent", "Momentum": "apply_momentum", "Adagrad": "apply_adagrad",
    "Adadelta": "apply_adadelta", "Adam": "apply_adam", "RMSProp": "apply_rms_prop",
}  # fmt: skip


def _step(rule: str, resource: bool) -> Build:
    def build(call: Call, *inputs: Value) -> Any:
        count = _VARIABLES[rule]
        handles = [handle_of(each) for each in inputs[:count]]
        settings = {"use_nesterov": True} if call.flag("use_nesterov", False) else {}
        done = REGISTRY[_NAMES[rule]](*handles, *map(value_of, inputs[count:]), **settings, name=call.name)
        return done if resource else Reference(handles[0], after=done)

    return build


for _rule in _VARIABLES:
    operator(f"Apply{_rule}", references=True)(_step(_rule, False))
    operator(f"ResourceApply{_rule}")(_step(_rule, True))


# Lookup tables

same(
    "LookupTableFindV2=lookup_table_find LookupTableSizeV2=lookup_table_size LookupTableInsertV2=lookup_table_insert "
    "LookupTableImportV2=lookup_table_import LookupTableRemoveV2=lookup_table_remove "
    "LookupTableFind=lookup_table_find LookupTableSize=lookup_table_size LookupTableInsert=lookup_table_insert "
    "LookupTableImport=lookup_table_import InitializeTableV2=initialize_table InitializeTable=initialize_table"
)


@operator("HashTable", "HashTableV2")
def _(call: Call) -> Tensor:
    kinds = call.dtype("key_dtype"), call.dtype("value_dtype")
    return tables.hash_table(*kinds, *_place(call), name=call.name)


@operator("MutableHashTable", "MutableHashTableV2", "MutableHashTableOfTensors", "MutableHashTableOfTensorsV2")
def _(call: Call) -> Tensor:
    kinds = call.dtype("key_dtype"), call.dtype("value_dtype"), call.shape("value_shape", SCALAR)
    return tables.mutable_hash_table(*kinds, *_place(call), name=call.name)


@operator("LookupTableExport", "LookupTableExportV2", results="keys values")
def _(call: Call, table: Tensor) -> tuple[Tensor, ...]:
    return tables.lookup_table_export(table, name=call.name)


@operator("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")
def _(call: Call, table: Tensor, file: Tensor) -> Operation:
    columns = call.integer("key_index"), call.integer("value_index"), call.integer("vocab_size", -1)
    lines = call.text("delimiter", "\t"), call.integer("offset", 0)
    return tables.initialize_table_from_text_file(table, file, *columns, *lines, name=call.name)
