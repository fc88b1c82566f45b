"""Calls that type checkers refuse. Each line that ends in `# wrong` is an error of both, and no other line is."""

# ruff: noqa: B018
import numpy as np

import aioflow as af


def ops(x: af.Tensor, v: af.Variable) -> None:
    af.matmul()  # wrong
    af.matmul(x)  # wrong
    af.matmul(x, v, transpose_c=True)  # wrong
    af.matmul(x, "text")  # wrong
    af.matmul(x, v, "yes", False, False, False, False, False, "name", 1)  # wrong
    af.reduce_mean("x", axis=0)  # wrong
    af.reduce_mean(x, axis="zero")  # wrong
    af.reduce_mean(x, axes=1)  # wrong
    af.reduce_sum(x, keepdim=True)  # wrong
    af.tanh("x")  # wrong
    af.tanh(x, x)  # wrong
    af.tanh(None)  # wrong
    af.tanh(object())  # wrong
    af.reshape(x)  # wrong
    af.concat(x)  # wrong
    af.expand_dims(x, "last")  # wrong
    af.argmax(x, 1, output_type=1)  # wrong
    af.one_hot([1, 2])  # wrong
    af.string_lower(1.0)  # wrong
    af.cast(x)  # wrong
    af.cast(x, 7)  # wrong
    af.placeholder(shape=[1])  # wrong
    af.placeholder(af.float32, ["one"])  # wrong
    af.constant(np.ones, af.float32)  # wrong
    af.zeros("2")  # wrong
    af.random_normal([2], stddev="small")  # wrong
    af.linalg.inv(x, adjoint="yes")  # wrong
    af.nn.relu()  # wrong
    af.nn.conv2d(x, v, strides="1")  # wrong
    af.nn.sparse_softmax_cross_entropy_with_logits(labels="a", logits=x)  # wrong
    af.image.resize_bilinear(x)  # wrong
    x - "text"  # wrong
    x @ ["text"]  # wrong


def names() -> None:
    af.keras  # wrong
    af.InteractiveSession  # wrong
    af.nn.reluu  # wrong
    af.train.AdamW  # wrong
    af.errors.OutOfRange  # wrong
    af.nest.flaten  # wrong
    af.initializers.one  # wrong


def building(loss: af.Tensor) -> None:
    af.get_variable(1, [2])  # wrong
    af.get_variable("w", ["two"])  # wrong
    af.Variable(object())  # wrong
    af.FIFOQueue("ten", af.float32)  # wrong
    af.train.AdamOptimizer("fast")  # wrong
    af.train.AdamOptimizer(0.1).minimise(loss)  # wrong
    af.Config(operation_timeout="two")  # wrong


async def running(session: af.Session, x: af.Tensor, op: af.Operation) -> None:
    await session.run(x, feed_dict={x: 1.0})  # wrong
    await session.run(3.5)  # wrong
    await session.run(x, options=3)  # wrong
    session.make_callable([x], feed_list=[x])  # wrong
    await x.eval(feed_dict={x: 1.0})  # wrong
    await op.run(session=session)  # wrong
    float(x)  # wrong
    len(x)  # wrong
    np.sum(x)  # wrong
    (await session.run([x])).shape  # wrong
    (await session.run({"x": x})).append(1)  # wrong
    session.queue(op)  # wrong
