"""Small models of TensorFlow, of a batch of four numbers each, with the constructs that its files have."""

from typing import Any

import numpy as np


def _weights(tf: Any, *shape: int) -> Any:
    return tf.constant(np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape))


def perceptron(tf: Any, x: Any) -> Any:
    hidden = tf.nn.relu(tf.matmul(x, _weights(tf, 4, 3)) + 1.0)
    return tf.nn.softmax(hidden)


def convolutional(tf: Any, x: Any) -> Any:
    y = tf.nn.conv2d(tf.reshape(x, [-1, 2, 2, 1]), _weights(tf, 2, 2, 1, 3), strides=[1, 1, 1, 1], padding="SAME")
    settings = [1.0, 2.0, 3.0], [0.0, 1.0, 2.0], [0.1, 0.2, 0.3], [1.0, 2.0, 3.0]
    y, _, _ = tf.nn.fused_batch_norm(y, *settings, is_training=False)
    return tf.reduce_mean(tf.nn.max_pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"), [1, 2])


def primitive_branch(tf: Any, x: Any) -> Any:
    tf.disable_control_flow_v2()
    return tf.cond(tf.reduce_sum(x) > 0, lambda: x + 1.0, lambda: x - 1.0)


def primitive_loop(tf: Any, x: Any) -> Any:
    """A loop with a branch inside."""
    tf.disable_control_flow_v2()

    def body(i: Any, a: Any) -> Any:
        return i + 1, tf.cond(i > 2, lambda: a * 2.0 + x, lambda: a - x)

    return tf.while_loop(lambda i, a: i < 5, body, [0, x])[1]


def functional_loop(tf: Any, x: Any) -> Any:
    tf.enable_control_flow_v2()

    def body(i: Any, a: Any) -> Any:
        return i + 1, tf.cond(i > 2, lambda: a * 2.0 + x, lambda: a - x)

    made = tf.while_loop(lambda i, a: i < 5, body, [0, x])[1]
    tf.disable_control_flow_v2()
    return made


def lstm(tf: Any, x: Any) -> Any:
    """A recurrent network that reads a TensorArray and writes another one."""
    tf.disable_control_flow_v2()
    return _lstm(tf, x)


def functional_lstm(tf: Any, x: Any) -> Any:
    tf.enable_control_flow_v2()
    made = _lstm(tf, x)
    tf.disable_control_flow_v2()
    return made


def _lstm(tf: Any, x: Any) -> Any:
    weights = _weights(tf, 5, 12)
    steps = tf.transpose(tf.reshape(x, [-1, 2, 2]), [1, 0, 2])
    inputs = tf.TensorArray(tf.float32, 2).unstack(steps)

    def body(t: Any, c: Any, h: Any, outputs: Any) -> Any:
        i, j, f, o = tf.split(tf.matmul(tf.concat([inputs.read(t), h], 1), weights), 4, 1)
        c = c * tf.sigmoid(f) + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        return t + 1, c, h, outputs.write(t, h)

    zero = tf.zeros(tf.stack([tf.shape(x)[0], 3]))
    open_rows = tf.TensorShape([None, 3])
    invariants = [tf.TensorShape([]), open_rows, open_rows, tf.TensorShape(None)]
    start = [0, zero, zero, tf.TensorArray(tf.float32, 2)]
    made = tf.while_loop(lambda t, *rest: t < 2, body, start, shape_invariants=invariants)
    return tf.transpose(made[3].stack(), [1, 0, 2])


FUNCTIONS = [
    perceptron, convolutional, primitive_branch, primitive_loop, functional_loop, lstm, functional_lstm,
]  # fmt: skip
