"""Functions that compose ops: they too agree with a reference, and differentiate to second order."""

import numpy as np
from scipy import special

from aioflow.kernels.nn import candidate_sampling, convolution_nd
from aioflow.library import image, image_geometry, nn_convolution, nn_functions
from tests.kernels.samples import sample
from tests.kernels.samples.nn_more import by_channel, convolved, normal, pooled, spread
from tests.kernels.samples.nn_windows import filters, images, levels

rows = normal(3, 4)

# Activations

sample("gelu", nn_functions.gelu, rows, reference=lambda x: x * special.ndtr(x))
sample(
    "gelu", lambda x: nn_functions.gelu(x, True), rows,
    reference=lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
)  # fmt: skip
sample("silu", nn_functions.silu, rows, reference=lambda x: x * special.expit(x))
sample("crelu", nn_functions.crelu, rows, reference=lambda x: np.maximum(np.concatenate([x, -x], -1), 0))
sample("hard_sigmoid", nn_functions.hard_sigmoid, rows * 3, reference=lambda x: np.clip(x * 0.2 + 0.5, 0, 1))

# Normalisation


def standard(x, axis, epsilon):
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + epsilon)


sample("layer_normalization", nn_functions.layer_normalization, rows, reference=lambda x: standard(x, -1, 1e-12))
sample(
    "layer_normalization",
    lambda x, b, g: nn_functions.layer_normalization(x, b, g, axis=[1, 2, 3], variance_epsilon=0.1),
    images, normal(2), normal(2), reference=lambda x, b, g: standard(x, (1, 2, 3), 0.1) * g + b,
)  # fmt: skip
sample(
    "batch_norm_with_global_normalization",
    lambda x, m, v, b, g: nn_functions.batch_norm_with_global_normalization(x, m, v, b, g, 0.01, True),
    images, normal(2), abs(normal(2)) + 1, normal(2), normal(2),
    reference=lambda x, m, v, b, g: (x - m) / np.sqrt(v + 0.01) * g + b,
)  # fmt: skip
sample(
    "sufficient_statistics", lambda x: nn_functions.sufficient_statistics(x, [0, 2])[:3], images,
    reference=lambda x: [8.0, x.sum((0, 2)), (x * x).sum((0, 2))],
)  # fmt: skip
sample(
    "normalize_moments",
    lambda x, s: nn_functions.normalize_moments(*nn_functions.sufficient_statistics(x, [0, 1, 2], s)),
    images, normal(2), reference=lambda x, s: [x.mean((0, 1, 2)), x.var((0, 1, 2))],
)  # fmt: skip


def weighted(x, w):
    w = np.broadcast_to(w, x.shape)
    mean = np.average(x, (0, 1), w)
    return mean, np.average((x - mean) ** 2, (0, 1), w)


sample(
    "weighted_moments", lambda x, w: nn_functions.weighted_moments(x, [0, 1], w), images, abs(normal(5, 1, 1)) + 1,
    reference=weighted,
)  # fmt: skip

# Convolution

sample(
    "conv1d", lambda x, w: convolution_nd.conv1d(x, w, 2, "SAME"), images[0], filters[:, 0],
    reference=lambda x, w: convolved(x, w, (2,), "SAME"),
)  # fmt: skip
sample(
    "conv1d", lambda x, w: convolution_nd.conv1d(x, w, 1, "VALID", data_format="NCW", dilations=2),
    images[0].swapaxes(1, 2).copy(), filters[:2, 0],
    reference=lambda x, w: convolved(x.swapaxes(1, 2), w, (1,), "VALID", (2,)).swapaxes(1, 2),
)  # fmt: skip
sample(
    "conv1d_transpose", lambda x, w: convolution_nd.conv1d_transpose(x, w, [5, 8, 2], 2), images[0][..., [0, 1, 0]],
    filters[:, 0], reference=lambda x, w: spread((5, 8, 2), w, x, (2,), "SAME"),
)  # fmt: skip
sample(
    "conv3d_transpose", lambda x, w: convolution_nd.conv3d_transpose(x, w, [1, 4, 4, 2, 2], 2), normal(1, 2, 2, 1, 3),
    normal(2, 3, 1, 2, 3), reference=lambda x, w: spread((1, 4, 4, 2, 2), w, x, (2, 2, 2), "SAME"),
)  # fmt: skip
sample(
    "depthwise_conv2d", lambda x, w: nn_convolution.depthwise_conv2d(x, w, 1, "SAME", rate=2), images,
    normal(2, 2, 2, 2), reference=lambda x, w: convolved(x, by_channel(w), (1, 1), "SAME", (2, 2)),
)  # fmt: skip
sample(
    "separable_conv2d", lambda x, w, p: nn_convolution.separable_conv2d(x, w, p, [1, 2, 1, 1], "SAME"), images,
    normal(2, 2, 2, 2), normal(1, 1, 4, 3),
    reference=lambda x, w, p: convolved(x, by_channel(w), (2, 1), "SAME") @ p[0, 0],
)  # fmt: skip
sample(
    "atrous_conv2d", lambda x, w: nn_convolution.atrous_conv2d(x, w, 2, "SAME"), images, filters,
    reference=lambda x, w: convolved(x, w, (1, 1), "SAME", (2, 2)),
)  # fmt: skip
sample(
    "atrous_conv2d_transpose",
    lambda x, w: nn_convolution.atrous_conv2d_transpose(x, w, [2, 6, 5, 2], 2, "SAME"), normal(2, 6, 5, 3), filters,
    reference=lambda x, w: spread((2, 6, 5, 2), w, x, (1, 1), "SAME", (2, 2)),
)  # fmt: skip
for rank, (x, w) in {
    1: (images[0], filters[:, 0]),
    2: (images, filters),
    3: (images.reshape(1, 2, 5, 4, 2), filters[:, :, None]),
}.items():
    sample(
        "convolution", lambda x, w, r=rank: nn_convolution.convolution(x, w, "SAME", [2] * r), x, w,
        reference=lambda x, w, r=rank: convolved(x, w, (2,) * r, "SAME"),
    )  # fmt: skip

# Pooling

KINDS = {"MAX": np.max, "AVG": np.mean}
for kind, function in KINDS.items():
    for x, window in [(levels[0], (3,)), (levels, (2, 3)), (levels.reshape(1, 2, 5, 4, 2), (1, 2, 2))]:
        for padding in ("SAME", "VALID"):
            steps, rates = [2] * len(window), [1, 2, 2][: len(window)] if len(window) > 1 else [2]
            sample(
                "pool", lambda x, a=(window, kind, padding), s=steps: nn_convolution.pool(x, *a, strides=s), x,
                reference=lambda x, w=window, p=padding, s=steps, f=function: pooled(x, w, s, p, function=f),
            )  # fmt: skip
            if (np.array(x.shape[1:-1]) < (np.array(window) - 1) * rates + 1).any():
                continue
            sample(
                "pool", lambda x, a=(window, kind, padding, rates): nn_convolution.pool(x, *a), x,
                reference=lambda x, w=window, p=padding, r=rates, f=function: pooled(
                    x, w, [1] * len(w), p, r, function=f
                ),
            )  # fmt: skip
    one = getattr(nn_convolution, f"{kind.lower()}_pool1d")
    sample(
        one.__name__, lambda x, op=one: op(x, 2, 2, "VALID", "NCW"), levels[0].swapaxes(1, 2).copy(),
        reference=lambda x, f=function: pooled(x.swapaxes(1, 2), (2,), (2,), "VALID", function=f).swapaxes(1, 2),
    )  # fmt: skip

# Images

boxes = np.array([[0.1, 0.15, 0.83, 0.9], [0.9, 0.85, 0.23, 0.1], [-0.4, 0.3, 0.7, 1.3]])
whose = np.array([0, 1, 1], np.int32)


def cropped(x, boxes, whose, size, outside=0.0):
    result = np.full((len(boxes), *size, x.shape[3]), outside)
    reach = np.array(x.shape[1:3]) - 1
    for number, (y1, x1, y2, x2) in enumerate(boxes):
        for row, column in np.ndindex(*size):
            share = np.array([i / (n - 1) if n > 1 else 0.5 for i, n in zip((row, column), size, strict=True)])
            at = (np.array([y1, x1]) + share * np.array([y2 - y1, x2 - x1])) * reach
            if (at < 0).any() or (at > reach).any():
                continue
            low = np.floor(at).astype(int)
            high = np.minimum(low + 1, reach)
            (down, across), (top, left), (bottom, right) = at - low, low, high
            seen = x[whose[number]]
            upper = seen[top, left] * (1 - across) + seen[top, right] * across
            lower = seen[bottom, left] * (1 - across) + seen[bottom, right] * across
            result[number, row, column] = upper * (1 - down) + lower * down
    return result


for size, outside in [((3, 2), 0.0), ((1, 4), 2.5)]:
    sample(
        "crop_and_resize", lambda *x, s=size, o=outside: image_geometry.crop_and_resize(*x, s, extrapolation_value=o),
        images, boxes, whose, reference=lambda *given, s=size, o=outside: cropped(*given, s, o),
    )  # fmt: skip

sample("adjust_brightness", lambda x: image.adjust_brightness(x, 0.25), images, reference=lambda x: x + 0.25)
sample(
    "adjust_contrast", lambda x: image.adjust_contrast(x, 2.0), images,
    reference=lambda x: x * 2 - x.mean((1, 2), keepdims=True),
)  # fmt: skip
sample(
    "per_image_standardization", image.per_image_standardization, images,
    reference=lambda x: standard(x, (1, 2, 3), 0),
)  # fmt: skip
sample("rot90", image.rot90, images, reference=lambda x: np.rot90(x, 1, (1, 2)))
sample("resize_images", lambda x: image.resize_images(x, [3, 3]), images[0])

# Candidates

true = np.array([[0, 3], [2, 2], [5, 1]])
for name in ("uniform", "log_uniform"):
    sampler = getattr(candidate_sampling, f"{name}_candidate_sampler")
    for unique in (True, False):
        sample(sampler.__name__, lambda x, op=sampler, u=unique: op(x, 2, 5, u, 8, seed=3), true, gradient=False)
sample(
    "compute_accidental_hits", lambda x, y: candidate_sampling.compute_accidental_hits(x, y, 2),
    true, np.array([2, 7, 0, 2]),
    reference=lambda x, y: [
        np.array([0, 1, 1, 1, 1], np.int32), np.array([2, 0, 3, 0, 3]), np.full(5, np.finfo(np.float32).min),
    ],
)  # fmt: skip
