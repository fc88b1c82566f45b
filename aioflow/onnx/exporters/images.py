"""How operations on images are written: ONNX has the channels first."""

from collections.abc import Sequence
from typing import Any

from aioflow.graph.operation import Operation
from aioflow.onnx.exporting import EXPORTERS, Export, Exporter, exporter, rank_of


def _channels_first(export: Export, name: str, op: Operation) -> str:
    return export.add("Transpose", name, perm=[0, 3, 1, 2]) if op.attrs["data_format"] == "NHWC" else name


def _as_given(export: Export, name: str, op: Operation) -> str:
    return export.add("Transpose", name, perm=[0, 2, 3, 1]) if op.attrs["data_format"] == "NHWC" else name


def _spatial(values: Sequence[Any], op: Operation) -> list[Any]:
    return list(values[1:3] if op.attrs["data_format"] == "NHWC" else values[2:])


def _sliding(op: Operation) -> dict[str, Any]:
    """Strides and padding as attributes."""
    padding, strides = op.attrs["padding"], _spatial(op.attrs["strides"], op)
    if isinstance(padding, str):
        return {"strides": strides, "auto_pad": {"SAME": "SAME_UPPER", "VALID": "VALID"}[padding]}
    pairs = _spatial(padding, op)
    return {"strides": strides, "pads": [before for before, _ in pairs] + [after for _, after in pairs]}


@exporter("conv2d")
def _(export: Export, op: Operation) -> str:
    window = export.add("Transpose", export.name(op.inputs[1]), perm=[3, 2, 0, 1])
    x = _channels_first(export, export.name(op.inputs[0]), op)
    y = export.add("Conv", x, window, **_sliding(op), dilations=_spatial(op.attrs["dilations"], op))
    return _as_given(export, y, op)


@exporter("depthwise_conv2d_native")
def _(export: Export, op: Operation) -> str:
    height, width, channels, times = [int(size or 0) for size in op.inputs[1].spec.sizes or ()]
    turned = export.add("Transpose", export.name(op.inputs[1]), perm=[2, 3, 0, 1])
    window = export.add("Reshape", turned, export.integers([channels * times, 1, height, width]))
    x = _channels_first(export, export.name(op.inputs[0]), op)
    dilations = _spatial(op.attrs["dilations"], op)
    return _as_given(export, export.add("Conv", x, window, **_sliding(op), dilations=dilations, group=channels), op)


def _pooled(type: str) -> Exporter:
    def export_pool(export: Export, op: Operation) -> str:
        x = _channels_first(export, export.name(op.inputs[0]), op)
        y = export.add(type, x, **_sliding(op), kernel_shape=_spatial(op.attrs["ksize"], op))
        return _as_given(export, y, op)

    return export_pool


EXPORTERS.update(avg_pool=_pooled("AveragePool"), max_pool=_pooled("MaxPool"))


@exporter("fused_batch_norm")
def _(export: Export, op: Operation) -> str:
    if op.attrs["is_training"]:
        raise ValueError("in training it depends on the batch: build the model with is_training=False")
    x, *vectors = export.names(op)
    y = export.add("BatchNormalization", _channels_first(export, x, op), *vectors, epsilon=op.attrs["epsilon"])
    return _as_given(export, y, op)


@exporter("bias_add")
def _(export: Export, op: Operation) -> str:
    value, bias = export.names(op)
    if (op.attrs["data_format"] or "N").startswith("NC"):
        bias = export.add("Unsqueeze", bias, export.integers(range(1, rank_of(op.inputs[0]) - 1)))
    return export.add("Add", value, bias)
