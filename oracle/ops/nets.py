"""Neural nets: activations, softmax and losses, normalisation."""

from typing import Any

import numpy as np

from oracle.draw import COMPLEX, FLOAT, FLOATS, NUMBERS, SIGNED, Call, Draw, alike, call, one
from oracle.table import NUMPY, compare, differs

for name in ("relu", "relu6", "elu", "selu", "softplus"):
    compare(f"nn.{name}", one(*FLOATS), ops=(name, f"{name}_grad"))
compare("nn.relu of integers", one(*SIGNED), gradient="integers")
compare("nn.softsign", one(*FLOATS))
compare(
    "nn.leaky_relu",
    lambda d: call(d.array(d.dtype(*FLOATS), d.shape()), alpha=d.pick(0.25, 0.0, 1.5)),
    ops=("leaky_relu", "leaky_relu_grad"),
)
compare("nn.crelu", one(*FLOATS, ranks=(1, 3)), ops=())
compare("nn.swish", one(*FLOATS), ops=())
compare("nn.silu", one(*FLOATS), lambda lib, x: lib.nn.silu(x, beta=1.5), ops=())
compare(
    "nn.gelu",
    lambda d: call(d.array("float32", d.shape()), approximate=d.pick(False, True)),
    theirs=lambda lib, x, approximate: gelu(x, approximate),
    ops=("gelu_tanh", "gelu_tanh_grad", "gelu_erf", "gelu_erf_grad"),
    rtol=64,
)


def gelu(x: Any, approximate: bool) -> Any:
    import tensorflow as tf

    return tf.nn.gelu(x, approximate)


def biased(d: Draw) -> Call:
    shape, dtype = d.shape(2, 4), d.dtype(*NUMBERS)
    return call(d.array(dtype, shape), d.array(dtype, shape[-1:]))


def biased_channels_first(d: Draw) -> Call:
    shape, dtype = d.shape(3, 4), d.dtype(*FLOATS)
    return call(d.array(dtype, shape), d.array(dtype, shape[1:2]), data_format="NCHW")


compare("nn.bias_add", biased, ops=("bias_add", "bias_add_grad"))
compare("nn.bias_add channels first", biased_channels_first)


def on_axis(d: Draw) -> Call:
    shape = d.shape(1)
    return call(d.array(d.dtype(*FLOATS), shape), axis=d.axis(shape))


for name in ("softmax", "log_softmax"):
    compare(f"nn.{name}", on_axis, rtol=64, ops=(name, f"{name}_grad"))


NO_CLASSES = differs(NUMPY + "there is no largest of no logits", lambda x, y: not x.shape[-1])


def classes(d: Draw) -> Call:
    dtype, shape = d.dtype(*FLOATS), d.shape(2, 2)
    labels = d.array(dtype, shape, 0, 1)
    return call(d.array(dtype, shape), labels / np.maximum(labels.sum(-1, keepdims=True), 0.01).astype(dtype))


compare(
    "nn.softmax_cross_entropy_with_logits",
    classes,
    lambda lib, x, y: lib.nn.softmax_cross_entropy_with_logits_v2(lib.stop_gradient(y), x),
    rtol=64,
    differs=NO_CLASSES,
)


def labelled(d: Draw) -> Call:
    shape = (*d.shape(0, 2), d.integer(1, 4))
    return call(d.array(d.dtype(*FLOATS), shape), d.ids(shape[:-1], 0, shape[-1] - 1))


compare(
    "nn.sparse_softmax_cross_entropy_with_logits",
    labelled,
    lambda lib, x, y: lib.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x),
    rtol=64,
    ops=("sparse_softmax_cross_entropy_with_logits", "scale_rows"),
)
compare(
    "nn.sigmoid_cross_entropy_with_logits",
    alike(2, *FLOATS),
    lambda lib, x, y: lib.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=y),
    rtol=64,
)
compare(
    "nn.weighted_cross_entropy_with_logits",
    alike(2, *FLOATS),
    lambda lib, x, y: lib.nn.weighted_cross_entropy_with_logits(labels=x, logits=y, pos_weight=1.5),
    rtol=64,
    ops=(),
    differs=differs("TensorFlow's is made of functions with kinks at 0, and has none", lambda x, y: y == 0),
)


def on_axes(d: Draw) -> Call:
    shape = d.shape(1)
    return call(d.array(d.dtype(*FLOATS, *COMPLEX), shape), axis=d.axis(shape))


compare("nn.l2_normalize", on_axes, ops=(), rtol=64)


def neighbours(d: Draw) -> Call:
    return call(
        d.array("float32", d.shape(4, 4, (0, 3))),
        depth_radius=d.integer(0, 3),
        bias=d.pick(1.0, 2.0),
        alpha=d.pick(1.0, 0.1),
        beta=d.pick(0.5, 1.0),
    )


compare("nn.local_response_normalization", neighbours, rtol=256, ops=("local_response_normalization", "neighbour_sum"))


def batch(d: Draw) -> Call:
    x = d.array("float32", d.shape(4, 4, (1, 3)))
    channels = (x.shape[-1],)
    return call(x, *[d.array("float32", channels, *ends) for ends in ((0.5, 2), (-1, 1), (-1, 1), (0.2, 2))])


def normalised(training: bool) -> Any:
    def run(lib: Any, x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
        given = {} if training else {"mean": lib.stop_gradient(mean), "variance": lib.stop_gradient(variance)}
        return lib.nn.fused_batch_norm(x, scale, offset, **given, epsilon=0.01, is_training=training)

    return run


def moderate(d: Draw) -> Call:
    x = d.array("float32", d.shape(4, 4, (1, 3)), -3, 3)
    return call(x, *[d.array("float32", x.shape[-1:], *ends) for ends in ((0.5, 2), (-1, 1), (-1, 1), (0.2, 2))])


compare(
    "nn.fused_batch_norm training",
    moderate,
    normalised(True),
    rtol=512,
    ops="fused_batch_norm",
    gradient="TensorFlow's forgets what arrives at the mean and the variance",
)
compare(
    "nn.fused_batch_norm of images",
    moderate,
    lambda lib, *xs: normalised(True)(lib, *xs)[0],
    rtol=512,
    ops=("fused_batch_norm", "fused_batch_norm_grad"),
)
compare(
    "nn.fused_batch_norm inference",
    moderate,
    normalised(False),
    rtol=512,
    ops=("fused_batch_norm", "fused_batch_norm_grad"),
)


def rows(d: Draw) -> Call:
    x = d.array("float32", d.shape(2, 4, (2, 4)), -3, 3)
    return call(x, *[d.array("float32", x.shape[-1:], *ends) for ends in ((0.5, 2), (-1, 1))])


def each_normalised(lib: Any, x: Any, scale: Any, offset: Any) -> Any:
    """TensorFlow's `moments` stop gradients at the mean, so that its second gradients are wrong."""
    if hasattr(lib.nn, "layer_normalization"):
        return lib.nn.layer_normalization(x, offset, scale, variance_epsilon=0.1)
    mean, variance = [of(x, [-1], keepdims=True) for of in (lib.reduce_mean, lib.math.reduce_variance)]
    return lib.nn.batch_normalization(x, mean, variance, offset, scale, 0.1)


compare("nn.layer_normalization", rows, each_normalised, rtol=512, ops=("layer_norm", "layer_norm_grad"))


def sequences(d: Draw) -> Call:
    """Inputs, both kernels, a bias, states and lengths; few steps, whose gradients TensorFlow takes long to build."""
    steps, batch, size, units = [d.integer(1, most) for most in (2, 3, 3, 3)]
    shapes = (steps, batch, size), (size, 4 * units), (units, 4 * units), (4 * units,), (batch, units), (batch, units)
    dtype = d.dtype("float32", "float64")
    return call(*[d.array(dtype, shape, -2, 2) for shape in shapes], d.ids((batch,), 0, steps))


def lstm(lib: Any, x: Any, kernel: Any, recurrent_kernel: Any, bias: Any, h: Any, c: Any, lengths: Any) -> Any:
    """TensorFlow's BlockLSTM has no gradient of its gradient, so that its steps are written out."""
    if hasattr(lib.nn, "lstm"):
        return lib.nn.lstm(x, kernel, recurrent_kernel, bias, h, c, lengths)
    outputs = []
    for step, row in enumerate(lib.unstack(x)):
        i, f, new, o = lib.split(lib.matmul(row, kernel) + lib.matmul(h, recurrent_kernel) + bias, 4, axis=1)
        alive = lib.expand_dims(lib.cast(step < lengths, x.dtype), 1)
        after = lib.sigmoid(f) * c + lib.sigmoid(i) * lib.tanh(new)
        outputs.append(alive * lib.sigmoid(o) * lib.tanh(after))
        h, c = outputs[-1] + (1 - alive) * h, alive * after + (1 - alive) * c
    return lib.stack(outputs), h, c


compare("nn.lstm", sequences, lstm, rtol=512, ops=("lstm", "lstm_grad"))


def normalised_by(d: Draw) -> Call:
    dtype, shape = d.dtype(*FLOAT), d.shape(2, 3, (1, 3))
    rest = [d.array(dtype, shape[-1:], *ends) for ends in ((-1, 1), (0.2, 2), (-1, 1), (0.5, 2))]
    return call(d.array(dtype, shape), *rest, variance_epsilon=0.01)


compare("nn.batch_normalization", normalised_by, ops=(), rtol=64)


def looked_up(d: Draw) -> Call:
    table = d.array(d.dtype(*FLOATS), (d.integer(1, 4), *d.shape(0, 2)))
    return call(table, d.ids(d.shape(0, 2), 0, len(table) - 1))


compare("nn.embedding_lookup", looked_up, ops=())


def accidental(d: Draw) -> Call:
    batch, true, sampled = d.integer(0, 3), d.integer(1, 2), d.integer(0, 5)
    return call(d.array("int64", (batch, true), 0, 5), d.array("int64", (sampled,), 0, 5), num_true=true)


compare(
    "nn.compute_accidental_hits",
    accidental,
    differs=differs(
        "TensorFlow forgets a candidate that was drawn again",
        lambda true, drawn, num_true: len(set(drawn.tolist())) < len(drawn),
    ),
)
