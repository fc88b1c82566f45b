"""The nodes that oneDNN computes together as a chain: which they are.

Where channels are whole blocks, a chain computes in blocks of channels, and its convolutions are `blocked`. Images of
another layout are copied at its begin, and its results at its end. A chain of other convolutions computes with channels
last.
"""

import math
from collections.abc import Sequence
from typing import Final

from aioflow.graph.kernel import NodeView
from aioflow.kernels.nn import onednn_pooling
from aioflow.kernels.nn.onednn_convolution import SMALL
from aioflow.kernels.nn.pooling import Pool
from aioflow.kernels.nn.windows import FORMATS
from aioflow.tensors.dtypes import Spec, float32, normalise_axis

BLOCK: Final = 16
"""The channels of a block on every machine: those of the largest vectors."""
_POOLS: Final = {"max_pool": onednn_pooling.HIGHEST, "avg_pool": onednn_pooling.MEAN}
_CHANNELS_LAST: Final = frozenset({"relu", "channel_shuffle"})
"""Ops that are only in chains with channels last."""


def convolves(op: str, node: NodeView, blocked: bool) -> bool:
    """Whether it is a convolution that may be in such a chain, with the steps after it."""
    if op != "fused_conv2d" or not node.attrs["kept"] or not _has_size(node.output_specs[0]):
        return False
    if not blocked:
        return _has_size(node.input_specs[0]) and _is_large(node)
    depthwise = node.attrs["convolution"] != "conv2d"
    fits = _in_blocks(node.input_specs[0]) if depthwise else _has_size(node.input_specs[0])
    return fits and node.attrs["groups"] == 1 and one_image(node.output_specs[0])[-1] >= BLOCK


def follows(op: str, node: NodeView, blocked: bool) -> bool:
    """Whether it can be computed with the nodes that make its images."""
    fits = _in_blocks if blocked else _has_size
    if op == "concat":
        rank = node.output_specs[0].rank
        return rank == 4 and normalise_axis(node.attrs["axis"], 4) == 3 and all(map(fits, node.input_specs))
    if op == "channel_steps" or (op in _CHANNELS_LAST and not blocked):
        return fits(node.output_specs[0])
    return op in _POOLS and fits(node.input_specs[0]) and _pools(op, node)


def images_of(op: str, node: NodeView) -> Sequence[int]:
    """The numbers of its inputs that are images."""
    if op == "concat":
        return range(len(node.input_specs))
    last = len(node.input_specs) - 1
    return (0, last) if op == "fused_conv2d" and "sum" in node.attrs["steps"] else (0,)


def one_image(spec: Spec) -> tuple[int, ...]:
    """The shape of one image, of those of a known size: [1, height, width, channels]."""
    return 1, *[size or 0 for size in (spec.sizes or ())[1:]]


def pooling(op: str, node: NodeView) -> onednn_pooling.Problem:
    """How it pools one image."""
    return onednn_pooling.problem_of(_POOLS[op], Pool(2, **node.attrs), one_image(node.input_specs[0]))


def _pools(op: str, node: NodeView) -> bool:
    """Whether oneDNN pools images of any number; a mean of few elements has other bits by NumPy."""
    if node.attrs["data_format"] != FORMATS[2][0]:
        return False
    problem = pooling(op, node)
    padded = any(max(slide.before, slide.after) >= slide.window for slide in problem.slides)
    return problem.possible or (op == "max_pool" and math.prod(problem.y) > 0 and not padded)


def _has_size(spec: Spec) -> bool:
    """Whether it is images of one size and dtype, of any number."""
    sizes = spec.sizes or ()
    return spec.dtype is float32 and len(sizes) == 4 and all(size is not None and size > 0 for size in sizes[1:])


def _is_large(node: NodeView) -> bool:
    """Whether oneDNN convolves even one image by itself, rather than NumPy."""
    filter, (*pixels, channels) = node.input_specs[1].sizes or (), one_image(node.output_specs[0])
    sums = math.prod([size or 0 for size in filter]) * math.prod(pixels)
    return (sums if node.attrs["convolution"] == "conv2d" else sums * channels) > SMALL


def _in_blocks(spec: Spec) -> bool:
    """Whether its channels are whole blocks."""
    return _has_size(spec) and not one_image(spec)[-1] % BLOCK
