"""Graphs whose memory is simulated, limited and swapped in tests: each gives fetches and feeds."""

import numpy as np

import aioflow as af


def fed(*shape):
    """A placeholder of that shape, and values for it."""
    values = np.random.default_rng(len(shape)).standard_normal(shape)
    return af.placeholder(af.float32, shape), (values * 0.1).astype(np.float32)


def weights(*shape, seed=1):
    return af.Variable(af.random_normal(shape, stddev=0.05, seed=seed))


def trained(loss, x, values, optimizer=None):
    optimizer = optimizer or af.train.GradientDescentOptimizer(0.01)
    return [loss, optimizer.minimize(loss)], {x: values}


def perceptron(optimizer=None):
    x, values = fed(256, 784)
    h = x
    for number, (rows, columns) in enumerate([(784, 512), (512, 256), (256, 10)]):
        h = af.tanh(af.matmul(h, weights(rows, columns, seed=number)) + af.Variable(af.zeros([columns])))
    return trained(af.reduce_mean(af.square(h)), x, values, optimizer)


def perceptron_by_momentum():
    return perceptron(af.train.MomentumOptimizer(0.1, 0.9))


def perceptron_by_adam():
    return perceptron(af.train.AdamOptimizer(0.1))


def convolutions():
    x, values = fed(32, 28, 28, 1)
    h = x
    for number, (before, after) in enumerate([(1, 32), (32, 64)]):
        h = af.nn.relu(af.nn.conv2d(h, weights(5, 5, before, after, seed=number), [1, 1, 1, 1], "SAME"))
        h = af.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    logits = af.matmul(af.reshape(h, [32, 7 * 7 * 64]), weights(7 * 7 * 64, 10))
    return trained(af.reduce_mean(af.square(logits)), x, values)


def lstm():
    x, values = fed(20, 16, 64)
    outputs, _ = af.nn.dynamic_rnn(af.nn.rnn_cell.BasicLSTMCell(128), x, time_major=True, dtype=af.float32)
    return trained(af.reduce_mean(af.square(outputs)), x, values)


def attention():
    x, values = fed(8, 64, 256)
    rows = af.reshape(x, [512, 256])
    q, k, v = [af.reshape(af.matmul(rows, weights(256, 256, seed=number)), [8, 64, 256]) for number in range(3)]
    mixed = af.matmul(af.nn.softmax(af.matmul(q, k, transpose_b=True) / 16.0), v)
    return trained(af.reduce_mean(af.square(mixed)), x, values)


def cross_entropy():
    x, values = fed(512, 1000)
    logits = af.matmul(x, weights(1000, 1000))
    labels = af.constant(np.arange(512) % 1000)
    loss = af.reduce_mean(af.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    return trained(loss, x, values)


def fan_out():
    x, values = fed(500, 500)
    return [af.add_n([af.reduce_sum(af.tanh(x * float(number))) for number in range(1, 9)])], {x: values}


def fan_in():
    x, values = fed(500, 500)
    return [af.add_n([af.tanh(x * float(number)) for number in range(1, 9)])], {x: values}


def there_and_back():
    """A chain whose values are all needed again, in reverse order."""
    x, values = fed(500, 500)
    chain = [x]
    for number in range(6):
        chain.append(af.tanh(chain[-1] + float(number)))
    y = chain.pop()
    for each in reversed(chain[1:]):
        y = y * each
    return [af.reduce_sum(y)], {x: values}


def branches():
    x, values = fed(500, 500)
    y = af.cond(af.reduce_sum(x) > -1e9, lambda: af.matmul(x, x) + af.tanh(x), lambda: af.exp(x))
    return [af.reduce_sum(y * x)], {x: values}


def mapped():
    x, values = fed(100, 10_000)
    return [af.map_fn(lambda row: af.tanh(row) * 2.0, x)], {x: values}


def loop_gradient():
    x, values = fed(100, 1000)
    _, y = af.while_loop(lambda i, y: i < 20, lambda i, y: (i + 1, af.tanh(y * 1.1)), [0, x])
    return [af.gradients(af.reduce_sum(y), x)[0]], {x: values}


def constants():
    x, values = fed(500, 500)
    large = af.constant(np.ones((500, 500), np.float32))
    return [af.matmul(x, large) + large], {x: values}


def pieces():
    x, values = fed(500, 500)
    left, right = af.split(x, 2, axis=1)
    y = af.concat([af.tanh(left), af.exp(right)], 1)
    return [af.transpose(y) + y], {x: values}


def centred():
    x, values = fed(1000, 1000)
    return [af.reduce_mean(af.square(x - af.reduce_mean(x, 0, keepdims=True)), 0)], {x: values}


GRAPHS = (
    perceptron, perceptron_by_momentum, perceptron_by_adam, convolutions, lstm, attention, cross_entropy, fan_out,
    fan_in, there_and_back, branches, mapped, loop_gradient, constants, pieces, centred,
)  # fmt: skip


# Values that a GPU may swap out


def deep():
    x, values = fed(2048, 128)
    h = x
    for number in range(12):
        h = af.tanh(af.matmul(h, weights(128, 128, seed=number)))
    return trained(af.reduce_mean(af.square(h)), x, values)


def two_branches():
    x, values = fed(512, 512)
    left = right = start = af.tanh(x)
    for _ in range(5):
        left = af.tanh(af.matmul(left, left) * 0.01)
        right = af.exp(-af.matmul(right, right) * 0.01)
    loss = af.reduce_mean(af.square(left * right + start))
    return [loss, af.gradients(loss, x)[0]], {x: values}


def many_convolutions():
    x, values = fed(16, 64, 64, 8)
    h = x
    for number in range(16):
        h = af.nn.relu(af.nn.conv2d(h, weights(1, 1, 8, 8, seed=number), [1, 1, 1, 1], "SAME"))
    return trained(af.reduce_mean(af.square(h)), x, values)


def swapping_loop():
    x, values = fed(256, 256)

    def step(i, y):
        return i + 1, af.tanh(af.matmul(y, y) * 0.01)

    _, y = af.while_loop(lambda i, y: i < 20, step, [0, x], swap_memory=True)
    return [af.gradients(af.reduce_sum(y), x)[0]], {x: values}


def swapping_rnn():
    x, values = fed(128, 256)
    w = weights(256, 256).read_value()

    def step(i, h, total):
        h = af.tanh(af.matmul(h, w) + x)
        return i + 1, h, total + af.reduce_sum(h * h)

    *_, total = af.while_loop(lambda i, h, total: i < 40, step, [0, x, 0.0], swap_memory=True)
    return [total, af.gradients(total, [x, w])], {x: values}


SWAPPED = (deep, two_branches, many_convolutions, swapping_loop, swapping_rnn)
