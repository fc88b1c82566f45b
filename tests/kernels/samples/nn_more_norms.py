"""Batch normalisation, layer normalisation and local response normalisation."""

import numpy as np

from aioflow.kernels.nn import layer_norm, local_response, normalisation
from tests.kernels.samples import sample
from tests.kernels.samples.nn_windows import first, images, last

rng = np.random.default_rng(7)
scale, offset, mean = (np.round(rng.normal(size=2), 2) for _ in range(3))
variance = np.array([0.5, 1.75])
dy = np.round(rng.normal(size=images.shape), 2)


def normalised(x, scale, offset, mean=None, variance=None, epsilon=0.001):
    axes = tuple(range(x.ndim - 1))
    count = x[..., 0].size
    if mean is None:
        mean, variance = x.mean(axes), x.var(axes)
        estimate = variance * (count / max(count - 1, 1))
    else:
        estimate = variance
    return (x - mean) / np.sqrt(variance + epsilon) * scale + offset, mean, estimate


def gradients(dy, x, scale, mean, variance, training, epsilon=0.001):
    axes = tuple(range(x.ndim - 1))
    inverse = 1 / np.sqrt(variance + epsilon)
    normal = (x - mean) * inverse
    dscale, doffset = (dy * normal).sum(axes), dy.sum(axes)
    inner = dy - (doffset + normal * dscale) / x[..., 0].size if training else dy
    return inner * scale * inverse, dscale, doffset


sample("fused_batch_norm", normalisation.fused_batch_norm, images, scale, offset, reference=normalised)
sample(
    "fused_batch_norm", lambda x, *how: normalisation.fused_batch_norm(x, *how, is_training=False),
    images, scale, offset, mean, variance, reference=normalised,
)  # fmt: skip
sample(
    "fused_batch_norm", lambda x, *how: normalisation.fused_batch_norm(x, *how, data_format="NCHW"),
    first(images), scale, offset,
    reference=lambda x, *how: (first((found := normalised(last(x), *how))[0]), *found[1:]),
)  # fmt: skip
sample(
    "fused_batch_norm", lambda x, *how: normalisation.fused_batch_norm(x, *how, data_format="NCHW", is_training=False),
    first(images), scale, offset, mean, variance,
    reference=lambda x, *how: (first((found := normalised(last(x), *how))[0]), *found[1:]),
)  # fmt: skip
sample(
    "fused_batch_norm", lambda x, *how: normalisation.fused_batch_norm(x, *how, epsilon=0.1), images[0, 0], scale,
    offset, reference=lambda x, *how: normalised(x, *how, epsilon=0.1),
)  # fmt: skip
sample(
    "fused_batch_norm", lambda x, *how: normalisation.fused_batch_norm(x, *how, is_training=False),
    images[:0], scale, offset, mean, variance, reference=normalised,
)  # fmt: skip
for training in (True, False):
    attrs = {"epsilon": 0.001, "is_training": training}
    sample(
        "fused_batch_norm_grad",
        lambda *given, a=attrs: normalisation.fused_batch_norm_grad(*given, **a),
        dy, images, scale, mean, variance,
        reference=lambda *given, training=training: gradients(*given, training),
    )  # fmt: skip
    sample(
        "fused_batch_norm_grad",
        lambda *given, a=attrs: normalisation.fused_batch_norm_grad(*given, data_format="NCHW", **a),
        first(dy), first(images), scale, mean, variance,
        reference=lambda dy, x, *given, training=training: (
            first((found := gradients(last(dy), last(x), *given, training))[0]), *found[1:]
        ),
    )  # fmt: skip


def layers(x, scale, offset, epsilon=0.001):
    axes = tuple(range(-scale.ndim, 0))
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * scale + offset, mean, variance


def layer_gradients(dy, x, scale, mean, variance, epsilon=0.001):
    axes, others = tuple(range(-scale.ndim, 0)), tuple(range(x.ndim - scale.ndim))
    inverse = 1 / np.sqrt(variance + epsilon)
    normal, g = (x - mean) * inverse, dy * scale
    dx = inverse * (g - g.mean(axes, keepdims=True) - normal * (g * normal).mean(axes, keepdims=True))
    return dx, (dy * normal).sum(others), dy.sum(others)


wide = np.round(rng.normal(size=(2, 3, 2, 4)), 2)
for shape in ((4,), (2, 4), wide.shape):
    scale_of_rows, offset_of_rows, dy_of_rows = (np.round(rng.normal(size=s), 2) for s in (shape, shape, wide.shape))
    axes = tuple(range(-len(shape), 0))
    given = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    sample("layer_norm", layer_norm.layer_norm, wide, scale_of_rows, offset_of_rows, reference=layers)
    sample(
        "layer_norm_grad", layer_norm.layer_norm_grad, dy_of_rows, wide, scale_of_rows, *given,
        reference=layer_gradients,
    )  # fmt: skip
sample(
    "layer_norm", lambda *given: layer_norm.layer_norm(*given, epsilon=0.5), wide[:0, 0, 0], wide[0, 0, 0],
    wide[0, 0, 1], reference=lambda *given: layers(*given, epsilon=0.5),
)  # fmt: skip

pixels = np.round(rng.normal(size=(2, 1, 2, 6)), 2)


def summed(x, radius):
    return np.stack([x[..., max(c - radius, 0) : c + radius + 1].sum(-1) for c in range(x.shape[-1])], -1)


sample(
    "neighbour_sum", lambda x: local_response.neighbour_sum(x, 2), pixels, reference=lambda x: summed(x, 2),
)  # fmt: skip
for how in [(), (1, 2.0, 0.5, 0.75), (2, 1.5, 0.3, 1.2)]:
    radius, bias, alpha, beta = how or (5, 1.0, 1.0, 0.5)
    sample(
        "local_response_normalization", lambda x, how=how: local_response.lrn(x, *how), pixels,
        reference=lambda x, r=radius, b=bias, a=alpha, e=beta: x / (b + a * summed(x * x, r)) ** e,
    )  # fmt: skip
