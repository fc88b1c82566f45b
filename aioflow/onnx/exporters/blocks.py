"""How operations that cut images into blocks and patches, and put them together again, are written."""

from collections.abc import Sequence

import numpy as np

from aioflow.graph.convert import constant_value
from aioflow.graph.operation import Operation
from aioflow.kernels.nn.windows import slide
from aioflow.onnx.exporting import Export, exporter, rank_of


def _known(op: Operation, place: int) -> list[int]:
    """The integers of an input. ValueError if only the run knows them."""
    found = constant_value(op.inputs[place])
    if found is None:
        raise ValueError(f"{op.inputs[place].name!r} must be known when the graph is built")
    return [int(number) for number in np.ravel(found)]


def _sizes(export: Export, x: str, start: int, end: int | None = None) -> str:
    return export.add("Shape", x, start=start, **({} if end is None else {"end": end}))


@exporter("space_to_batch_nd")
def _(export: Export, op: Operation) -> str:
    """[batch, places · block, ...] -> [block, batch, places, ...], the places of a block first."""
    block, pairs, rank = _known(op, 1), _known(op, 2), rank_of(op.inputs[0])
    count = len(block)
    pads = [0, *pairs[::2], *[0] * (rank - count - 1), 0, *pairs[1::2], *[0] * (rank - count - 1)]
    zero = export.initial(op.inputs[0].dtype.np.type(0))
    x = export.add("Pad", export.name(op.inputs[0]), export.integers(pads), zero)
    places = export.add("Div", _sizes(export, x, 1, 1 + count), export.integers(block))
    pieces = [_sizes(export, x, 0, 1)]
    for axis, size in enumerate(block):
        pieces += [export.add("Slice", places, *map(export.integers, ([axis], [axis + 1]))), export.integers([size])]
    cut = export.add("Reshape", x, export.add("Concat", *pieces, _sizes(export, x, 1 + count), axis=0), allowzero=1)
    outer, inner = range(1, 1 + 2 * count, 2), range(2, 2 + 2 * count, 2)
    turned = export.add("Transpose", cut, perm=[*inner, 0, *outer, *range(1 + 2 * count, rank + count)])
    batch = export.add("Mul", _sizes(export, x, 0, 1), export.integers([int(np.prod(block))]))
    whole = export.add("Concat", batch, places, _sizes(export, x, 1 + count), axis=0)
    return export.add("Reshape", turned, whole, allowzero=1)


@exporter("batch_to_space_nd")
def _(export: Export, op: Operation) -> str:
    """[block, batch, places, ...] -> [batch, places · block, ...], without what is cut off."""
    block, crops, rank = _known(op, 1), _known(op, 2), rank_of(op.inputs[0])
    x, count = export.name(op.inputs[0]), len(block)
    batch = export.add("Div", _sizes(export, x, 0, 1), export.integers([int(np.prod(block))]))
    cut = export.add(
        "Reshape", x, export.add("Concat", export.integers(block), batch, _sizes(export, x, 1), axis=0), allowzero=1
    )
    pairs = [axis for place in range(count) for axis in (count + 1 + place, place)]
    turned = export.add("Transpose", cut, perm=[count, *pairs, *range(2 * count + 1, rank + count)])
    places = export.add("Mul", _sizes(export, x, 1, 1 + count), export.integers(block))
    whole = export.add("Reshape", turned, export.add("Concat", batch, places, _sizes(export, x, 1 + count), axis=0))
    ends = export.add("Sub", places, export.integers(crops[1::2]))
    return export.add("Slice", whole, export.integers(crops[::2]), ends, export.integers(range(1, 1 + count)))


@exporter("extract_image_patches")
def _(export: Export, op: Operation) -> str:
    """The pixels at each place of a window, by slices: the channels of the patch are all of them, place by place."""
    _, height, width, depth = op.inputs[0].spec.sizes or (None,) * 4
    if None in (height, width, depth):
        raise ValueError(
            f"the height, the width and the channels of the images must be known, not {op.inputs[0].shape}"
        )
    steps = [op.attrs[name][1:3] for name in ("ksizes", "strides", "rates")]
    padding = [op.attrs["padding"]] * 2
    slides = list(map(slide, (height, width), *steps, padding))
    pads = [0, slides[0].before, slides[1].before, 0, 0, slides[0].after, slides[1].after, 0]
    zero = export.initial(op.inputs[0].dtype.np.type(0))
    x = export.add("Pad", export.name(op.inputs[0]), export.integers(pads), zero)
    sizes = [int(size or 0) for size in (op.outputs[0].spec.sizes or ())[1:3]]
    parts = [
        _every(export, x, (row * steps[2][0], column * steps[2][1]), steps[1], sizes)
        for row in range(steps[0][0])
        for column in range(steps[0][1])
    ]
    return export.add("Concat", *parts, axis=3)


def _every(export: Export, x: str, first: Sequence[int], steps: Sequence[int], counts: Sequence[int]) -> str:
    """As many rows and columns from the first ones on, with those steps between them."""
    ends = [start + step * (count - 1) + 1 for start, step, count in zip(first, steps, counts, strict=True)]
    return export.add("Slice", x, *map(export.integers, (first, ends, (1, 2), steps)))
