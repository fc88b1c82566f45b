"""How operations on texts are written."""

import numpy as np

from aioflow.graph.operation import Operation
from aioflow.onnx.exporting import Export, exporter
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import string


@exporter("string_add")
def _(export: Export, op: Operation) -> str:
    return export.add("StringConcat", *export.names(op))


@exporter("string_join")
def _(export: Export, op: Operation) -> str:
    first, *others = export.names(op)
    for name in others:
        if op.attrs["separator"]:
            first = export.add("StringConcat", first, export.initial(np.array(op.attrs["separator"], object)))
        first = export.add("StringConcat", first, name)
    return first


@exporter("regex_full_match")
def _(export: Export, op: Operation) -> str:
    return export.add("RegexFullMatch", export.name(op.inputs[0]), pattern=op.attrs["pattern"])


@exporter("string_to_number")
def _(export: Export, op: Operation) -> str:
    return export.add("Cast", export.name(op.inputs[0]), to=NUMBERS[op.outputs[0].dtype])


@exporter("as_string")
def _(export: Export, op: Operation) -> str:
    """The digits of integers are the same; of floats and truth values ONNX has a form of its own."""
    if not op.inputs[0].dtype.is_integer or op.attrs["width"] >= 0 or op.attrs["fill"]:
        raise ValueError("ONNX writes integers by their digits, and other texts in a form of its own")
    return export.add("Cast", export.name(op.inputs[0]), to=NUMBERS[string])
