"""How constants and variables are written: as initial values."""

from aioflow.graph.operation import Operation
from aioflow.onnx.exporting import Export, exporter


@exporter("constant")
def _(export: Export, op: Operation) -> list[str]:
    return []  # it is written when a node first uses it: shapes and axes are often constants that no node uses


@exporter("variable")
def _(export: Export, op: Operation) -> str | list[str]:
    value = export.value_of(op.outputs[0])
    if value.dtype.kind == "c":
        export.set_parts(op.outputs[0], value)
        return []
    return export.initial(value, op.name)


@exporter("read_variable")
def _(export: Export, op: Operation) -> str:
    return export.name(op.inputs[0])


@exporter("gather_variable")
def _(export: Export, op: Operation) -> str:
    return export.add("Gather", *export.names(op))


@exporter("check_numerics")
@exporter("ensure_index")
@exporter("fitting_weights")
@exporter("print")
def _(export: Export, op: Operation) -> str:
    """What they pass on: a model checks and prints nothing, nor do the assertions that its outputs wait for."""
    return export.add("Identity", export.name(op.inputs[0]))
