"""How random numbers are written: a runtime draws its own, of the same distribution."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Operation
from aioflow.onnx.exporting import EXPORTERS, Export, Exporter, exporter
from aioflow.onnx.tensors import NUMBERS


def _drawn(type: str) -> Exporter:
    def export_numbers(export: Export, op: Operation) -> str:
        dtype = op.outputs[0].dtype
        like = export.add("Expand", export.initial(dtype.np.type(0)), export.as_int64(op.inputs[0]))
        return export.add(type, like, dtype=NUMBERS[dtype], **_seed(op))

    return export_numbers


def _seed(op: Operation) -> Mapping[str, Any]:
    """The seed of the operation, if it has one."""
    seed = op.attrs.get("seed2") if op.attrs.get("seed2") is not None else op.attrs.get("seed")
    return {} if seed is None else {"seed": float(seed)}


EXPORTERS.update(random_uniform=_drawn("RandomUniformLike"), random_normal=_drawn("RandomNormalLike"))


@exporter("multinomial")
def _(export: Export, op: Operation) -> str:
    count = constant_value(op.inputs[1])
    if count is None:
        raise ValueError("ONNX draws a number of classes that is known when the graph is built")
    dtype = op.outputs[0].dtype
    return export.add(
        "Multinomial", export.name(op.inputs[0]), sample_size=int(np.ravel(count)[0]), dtype=NUMBERS[dtype], **_seed(op)
    )
