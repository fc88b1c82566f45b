import numpy as np
import scipy.special

from aioflow.kernels.nn import activation, losses, softmax
from tests.kernels.samples import sample

x = np.array([[-7.5, -1.3, -0.4, 0.3], [0.8, 1.9, 5.2, 8.1]])
dy = np.array([[0.7, -1.2, 0.5, 2.1], [-0.3, 1.1, 0.9, -0.8]])
nothing = np.zeros((0, 4))
images = np.arange(24.0).reshape(2, 3, 2, 2) - 10.3
SCALE = activation.SELU_SCALE


def selu(x):
    return SCALE * np.where(x > 0, x, activation.SELU_ALPHA * np.expm1(x))


for op, reference in [
    (activation.relu, lambda x: np.maximum(x, 0)),
    (activation.relu6, lambda x: np.clip(x, 0, 6)),
    (activation.leaky_relu, lambda x: np.where(x > 0, x, 0.2 * x)),
    (activation.elu, lambda x: np.where(x > 0, x, np.expm1(x))),
    (activation.selu, selu),
    (activation.softplus, lambda x: np.logaddexp(x, 0)),
    (activation.softsign, lambda x: x / (1 + np.abs(x))),
]:
    sample(op.name, op, x, reference=reference)
    sample(op.name, op, nothing, reference=reference)
    sample(op.name, op, np.array(-1.5), reference=reference)
sample("relu", activation.relu, np.array([[-3, 0, 4]], np.int32), reference=lambda x: np.maximum(x, 0))
sample("leaky_relu", lambda x: activation.leaky_relu(x, 3.5), x, reference=lambda x: np.where(x > 0, x, 3.5 * x))
sample("leaky_relu", lambda x: activation.leaky_relu(x, -0.5), x, reference=lambda x: np.where(x > 0, x, -0.5 * x))

for op, slope in [
    (activation.relu_grad, lambda y: y > 0),
    (activation.relu6_grad, lambda y: (y > 0) & (y < 6)),
    (activation.leaky_relu_grad, lambda y: np.where(y > 0, 1, 0.2)),
    (activation.elu_grad, lambda y: np.where(y > 0, 1, y + 1)),
    (activation.selu_grad, lambda y: np.where(y > 0, 0, y) + SCALE * np.where(y > 0, 1, activation.SELU_ALPHA)),
    (activation.softplus_grad, scipy.special.expit),
]:  # fmt: skip
    sample(op.name, op, dy, x, reference=lambda dy, y, slope=slope: dy * slope(y))
    sample(op.name, op, np.array(0.7), np.array(-0.4), reference=lambda dy, y, slope=slope: dy * slope(y))

# Bias

channels = np.array([0.5, -1.5])


def over_channels(bias):
    return bias[:, None, None] if np.ndim(bias) else bias


sample("bias_add", activation.bias_add, images, channels, reference=np.add)
sample("bias_add", activation.bias_add, x, dy[0], reference=np.add)
sample("bias_add", activation.bias_add, nothing, dy[0], reference=np.add)
sample(
    "bias_add", lambda x, b: activation.bias_add(x, b, "NCHW"), np.moveaxis(images, 3, 1).copy(), channels,
    reference=lambda x, b: x + b[:, None, None],
)  # fmt: skip
sample("bias_add_grad", activation.bias_add_grad, images, reference=lambda x: x.sum((0, 1, 2)))
sample("bias_add_grad", activation.bias_add_grad, x, reference=lambda x: x.sum(0))
sample("bias_add_grad", activation.bias_add_grad, nothing, reference=lambda x: x.sum(0))
sample("bias_add_grad", lambda x: activation.bias_add_grad(x, "NCHW"), images, reference=lambda x: x.sum((0, 2, 3)))
sample("bias_add_grad", activation.bias_add_grad, np.array([[1, 2], [3, 4]], np.int32), reference=lambda x: x.sum(0))

# Softmax

for axis in (-1, 0, 1):
    for name in ("softmax", "log_softmax"):
        op, reference = getattr(softmax, name), getattr(scipy.special, name)
        sample(
            name, lambda x, op=op, axis=axis: op(x, axis), x, reference=lambda x, f=reference, a=axis: f(x, axis=a)
        )  # fmt: skip
    sample(
        "softmax_grad", lambda g, y, axis=axis: softmax.softmax_grad(g, y, axis), dy, x,
        reference=lambda g, y, a=axis: (g - (g * y).sum(a, keepdims=True)) * y,
    )  # fmt: skip
    sample(
        "log_softmax_grad", lambda g, y, axis=axis: softmax.log_softmax_grad(g, y, axis), dy, x / 4,
        reference=lambda g, y, a=axis: g - g.sum(a, keepdims=True) * np.exp(y),
    )  # fmt: skip
for name in ("softmax", "log_softmax"):
    op, reference = getattr(softmax, name), getattr(scipy.special, name)
    sample(name, op, nothing, reference=lambda x: x)
    sample(name, op, images, reference=lambda x, f=reference: f(x, axis=-1))

# Cross entropies


def sparse(logits, labels):
    hot = np.eye(logits.shape[-1])[labels]
    return -(hot * scipy.special.log_softmax(logits, -1)).sum(-1), scipy.special.softmax(logits, -1) - hot


def dense(logits, labels):
    total = labels.sum(-1, keepdims=True)
    return (
        -(labels * scipy.special.log_softmax(logits, -1)).sum(-1),
        total * scipy.special.softmax(logits, -1) - labels,
    )


name = "sparse_softmax_cross_entropy_with_logits"
sample(name, losses._sparse, dy, np.array([3, 0], np.int32), reference=sparse)
sample(name, losses._sparse, dy, np.array([1, 2]), reference=sparse)
sample(name, losses._sparse, images, np.array([[[0, 1], [1, 1], [0, 0]]] * 2, np.uint8), reference=sparse)
sample(name, losses._sparse, nothing, np.zeros(0, np.int32), reference=sparse)
sample(name, losses._sparse, np.array([900.0, -900.0, 0.0]), np.array(1), reference=sparse, gradient=False)

name = "softmax_cross_entropy_with_logits"
shares = scipy.special.softmax(x / 5, -1)
sample(name, losses._dense, dy, shares, reference=dense)
sample(name, losses._dense, dy, x, reference=dense)
sample(name, losses._dense, dy[0], shares[0], reference=dense)
sample(name, losses._dense, nothing, nothing, reference=dense)

sample("scale_rows", losses.scale_rows, x, np.array([2.0, -0.5]), reference=lambda x, f: x * f[:, None])
sample("scale_rows", losses.scale_rows, x[0], np.array(2.5), reference=np.multiply)

sample(
    "sigmoid_cross_entropy_with_logits", losses._sigmoid, shares, x,
    reference=lambda z, x: -z * scipy.special.log_expit(x) - (1 - z) * scipy.special.log_expit(-x),
)  # fmt: skip
far = np.array([1.0, 0.0, 1.0]), np.array([-800.0, 800.0, 800.0])
sample("sigmoid_cross_entropy_with_logits", losses._sigmoid, *far, reference=lambda z, x: np.array([800.0, 800.0, 0.0]))
