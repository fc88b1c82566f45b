"""How operations on images are written: ONNX has the channels first."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.nn.windows import slide
from aioflow.onnx.exporting import EXPORTERS, Export, Exporter, exporter, rank_of
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import int64


def _channels_first(export: Export, name: str, op: Operation) -> str:
    if not _channels_last(op):
        return name
    rank = rank_of(op.outputs[0])
    return export.add("Transpose", name, perm=[0, rank - 1, *range(1, rank - 1)])


def _as_given(export: Export, name: str, op: Operation) -> str:
    if not _channels_last(op):
        return name
    return export.add("Transpose", name, perm=[0, *range(2, rank_of(op.outputs[0])), 1])


def _channels_last(op: Operation) -> bool:
    """Whether the channels are the last axis; without axes between, that is the second, too."""
    return not op.attrs["data_format"].startswith("NC") and rank_of(op.outputs[0]) > 2


def _spatial(values: Sequence[Any], op: Operation) -> list[Any]:
    return list(values[1:-1] if _channels_last(op) else values[2:])


def _sliding(op: Operation) -> dict[str, Any]:
    """Strides and padding as attributes."""
    padding, strides = op.attrs["padding"], _spatial(op.attrs["strides"], op)
    pairs = _spatial(padding, op) if not isinstance(padding, str) else _same_in_numbers(op) if padding == "SAME" else []
    if isinstance(padding, str) and not pairs:
        return {"strides": strides, "auto_pad": {"SAME": "SAME_UPPER", "VALID": "VALID"}[padding]}
    return {"strides": strides, "pads": [before for before, _ in pairs] + [after for _, after in pairs]}


def _same_in_numbers(op: Operation) -> list[tuple[int, int]]:
    """The padding "SAME" of a dilated window, as ONNX Runtime knows no name for it; empty if that needs open sizes."""
    strides, dilations = (_spatial(op.attrs.get(name, ()), op) for name in ("strides", "dilations"))
    if max(dilations, default=1) == 1:
        return []
    windows, sizes = (op.inputs[1].spec.sizes or ())[: len(strides)], _spatial(op.inputs[0].spec.sizes or (), op)
    # With strides of 1 every size has the same padding.
    known = [1 if size is None and by == 1 else size for size, by in zip(sizes, strides, strict=True)]
    if None in (*windows, *known):
        return []
    slides = map(slide, known, windows, strides, dilations, ["SAME"] * len(known))
    return [(each.before, each.after) for each in slides]


def _window(export: Export, tensor: Tensor) -> str:
    """The filter of a convolution with its channels first."""
    rank = rank_of(tensor)
    return export.add("Transpose", export.name(tensor), perm=[rank - 1, rank - 2, *range(rank - 2)])


@exporter("conv2d")
@exporter("conv3d")
def _(export: Export, op: Operation) -> str:
    x, window = _channels_first(export, export.name(op.inputs[0]), op), _window(export, op.inputs[1])
    y = export.add("Conv", x, window, **_sliding(op), dilations=_spatial(op.attrs["dilations"], op))
    return _as_given(export, y, op)


@exporter("conv2d_backprop_input")
@exporter("conv3d_backprop_input")
def _(export: Export, op: Operation) -> str:
    x, window = _channels_first(export, export.name(op.inputs[2]), op), _window(export, op.inputs[1])
    strides, dilations = (_spatial(op.attrs[name], op) for name in ("strides", "dilations"))
    sizes: Sequence[Any] = (op.inputs[1].spec.sizes or ())[: len(strides)]
    if None in sizes:
        raise ValueError(f"the sizes of windows must be known, they are {list(sizes)}")
    reach = [by * (size - 1) + 1 for by, size in zip(dilations, sizes, strict=True)]
    given, made = (_spatial(tensor.spec.sizes or (), op) for tensor in (op.inputs[2], op.outputs[0]))
    is_open = None in (*given, *made)
    cut = {"output_padding": [by - 1 for by in strides]} if is_open else _cut(op, strides, reach, given, made)
    y = export.add("ConvTranspose", x, window, strides=strides, dilations=dilations, **cut)
    return _as_given(export, _cut_in_run(export, op, x, y, strides, reach) if is_open else y, op)


def _cut_in_run(export: Export, op: Operation, x: str, whole: str, strides: Sequence[int], reach: Sequence[int]) -> str:
    """The part of a transposed convolution of images `x` without padding that has the size that the run gives."""
    axes, padding = range(2, 2 + len(strides)), op.attrs["padding"]
    places = export.integers(_spatial(range(rank_of(op.outputs[0])), op))
    made = export.add("Gather", export.as_int64(op.inputs[0]), places, axis=0)
    if padding == "SAME":
        given = export.add("Gather", export.add("Shape", x), export.integers(axes), axis=0)
        steps = export.add("Mul", export.add("Sub", given, export.integers([1])), export.integers(strides))
        more = export.add("Sub", export.add("Add", steps, export.integers(reach)), made)
        before = export.add("Div", export.add("Max", more, export.integers([0])), export.integers([2]))
    else:
        pairs = [(0, 0)] * len(axes) if isinstance(padding, str) else _spatial(padding, op)
        before = export.integers([first for first, _ in pairs])
    return export.add("Slice", whole, before, export.add("Add", before, made), export.integers(axes))


def _cut(
    op: Operation, strides: Sequence[int], reach: Sequence[int], given: Sequence[int], made: Sequence[int]
) -> dict[str, list[int]]:
    """What a transposed convolution leaves out at both ends, or adds at the end: the padding of the forward one."""
    whole = [(n - 1) * by + width - m for n, m, by, width in zip(given, made, strides, reach, strict=True)]
    padding = op.attrs["padding"]
    before = [pair[0] for pair in _spatial(padding, op)] if not isinstance(padding, str) else [0] * len(whole)
    if padding == "SAME":
        before = [max(size, 0) // 2 for size in whole]
    after = [size - first for size, first in zip(whole, before, strict=True)]
    return {"pads": [*before, *[max(size, 0) for size in after]], "output_padding": [max(-size, 0) for size in after]}


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


EXPORTERS.update({name: _pooled("AveragePool") for name in ("avg_pool", "avg_pool3d")})
EXPORTERS.update({name: _pooled("MaxPool") for name in ("max_pool", "max_pool3d")})


@exporter("max_pool_with_argmax")
def _(export: Export, op: Operation) -> list[str]:
    """ONNX counts the elements of all images with the channels first, aioflow those of one with the channels last."""
    dtype, names = op.outputs[1].dtype, ("ksize", "strides")
    window, steps = [list(op.attrs[name][1:3]) for name in names]
    first = export.add("Transpose", export.name(op.inputs[0]), perm=[0, 3, 1, 2])
    padding = {"SAME": "SAME_UPPER", "VALID": "VALID"}[op.attrs["padding"]]
    made = export.add_all("MaxPool", [first], 2, kernel_shape=window, strides=steps, auto_pad=padding)
    values, places = [export.add("Transpose", each, perm=[0, 2, 3, 1]) for each in made]
    sizes = [export.add("Shape", first, start=axis, end=axis + 1) for axis in range(1, 4)]
    depth, area = sizes[0], export.add("Mul", sizes[1], sizes[2])
    image, rest = export.add("Div", places, area), export.add("Mod", places, area)
    found = export.add("Add", export.add("Mul", rest, depth), export.add("Mod", image, depth))
    if op.attrs["include_batch_in_index"]:
        before = export.add("Mul", export.add("Div", image, depth), export.add("Mul", area, depth))
        found = export.add("Add", found, before)
    return [values, found if dtype is int64 else export.add("Cast", found, to=NUMBERS[dtype])]


@exporter("fused_batch_norm")
def _(export: Export, op: Operation) -> str:
    if op.attrs["is_training"]:
        raise ValueError("in training it depends on the batch: build the model with is_training=False")
    x, *vectors = export.names(op)
    y = export.add("BatchNormalization", _channels_first(export, x, op), *vectors, epsilon=op.attrs["epsilon"])
    return _as_given(export, y, op)


@exporter("layer_norm")
def _(export: Export, op: Operation) -> list[str]:
    """ONNX gives 1 divided by the deviation in place of the variance, which so has no name."""
    (x, *vectors), (wide, narrow) = export.names(op), (op.inputs[1].dtype, op.inputs[0].dtype)
    if wide is not narrow:
        x = export.add("Cast", x, to=NUMBERS[wide])
    axis = -rank_of(op.inputs[1])
    y, mean = export.add_all("LayerNormalization", [x, *vectors], 2, axis=axis, epsilon=op.attrs["epsilon"])
    return [y if wide is narrow else export.add("Cast", y, to=NUMBERS[narrow]), mean]


@exporter("local_response_normalization")
def _(export: Export, op: Operation) -> str:
    """ONNX takes the mean of the squares, and not their sum, and the channels are its second axis."""
    x, rank, size = export.name(op.inputs[0]), rank_of(op.inputs[0]), 2 * op.attrs["depth_radius"] + 1
    x = export.add("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)])
    alpha, beta, bias = (op.attrs[name] for name in ("alpha", "beta", "bias"))
    y = export.add("LRN", x, size=size, alpha=float(alpha * size), beta=float(beta), bias=float(bias))
    return export.add("Transpose", y, perm=[0, *range(2, rank), 1])


def _resized(mode: str, nearest: Mapping[str, str] | None = None) -> Exporter:
    def export_resize(export: Export, op: Operation) -> str:
        x = export.name(op.inputs[0])
        if op.inputs[0].dtype is not op.outputs[0].dtype:
            x = export.add("Cast", x, to=NUMBERS[op.outputs[0].dtype])
        first = export.add("Transpose", x, perm=[0, 3, 1, 2])
        counts = export.add("Slice", export.add("Shape", first), export.integers([0]), export.integers([2]))
        sizes = export.add("Concat", counts, export.as_int64(op.inputs[1]), axis=0)
        places = _PLACES[op.attrs["align_corners"], op.attrs["half_pixel_centers"]]
        options: dict[str, Any] = {"nearest_mode": nearest[places]} if nearest else {}
        if mode == "cubic":
            inside = op.attrs["half_pixel_centers"]
            options = {"cubic_coeff_a": -0.5 if inside else -0.75, "exclude_outside": int(inside)}
        y = export.add("Resize", first, "", "", sizes, mode=mode, coordinate_transformation_mode=places, **options)
        return export.add("Transpose", y, perm=[0, 2, 3, 1])

    return export_resize


_PLACES: Final = {
    (False, False): "asymmetric", (False, True): "half_pixel", (True, False): "align_corners",
}  # fmt: skip
"""ONNX's names of where pixels lie, by `align_corners` and `half_pixel_centers`."""
_up = "round_prefer_ceil"
EXPORTERS["resize_bilinear"] = _resized("linear")
EXPORTERS["resize_bicubic"] = _resized("cubic")
EXPORTERS["resize_nearest_neighbor"] = _resized(
    "nearest", {"asymmetric": "floor", "half_pixel": _up, "align_corners": _up}
)


def _blocks(type: str, **options: str) -> Exporter:
    def export_blocks(export: Export, op: Operation) -> str:
        x, last = export.name(op.inputs[0]), op.attrs["data_format"] == "NHWC"
        first = export.add("Transpose", x, perm=[0, 3, 1, 2]) if last else x
        made = export.add(type, first, blocksize=op.attrs["block_size"], **options)
        return export.add("Transpose", made, perm=[0, 2, 3, 1]) if last else made

    return export_blocks


EXPORTERS.update(depth_to_space=_blocks("DepthToSpace", mode="DCR"), space_to_depth=_blocks("SpaceToDepth"))


@exporter("bias_add")
def _(export: Export, op: Operation) -> str:
    value, bias = export.names(op)
    if (op.attrs["data_format"] or "N").startswith("NC"):
        bias = export.add("Unsqueeze", bias, export.integers(range(1, rank_of(op.inputs[0]) - 1)))
    return export.add("Add", value, bias)
