"""The net in TensorFlow's v1 mode: a graph, a session, make_callable."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks import peers
from benchmarks.harness import Step
from benchmarks.lenet import Problem, summary


@asynccontextmanager
async def training(problem: Problem) -> AsyncIterator[Step]:
    """Yield a step that trains once on the batch and returns its loss."""
    tf = peers.tensorflow()
    graph = tf.Graph()
    with graph.as_default():
        images, logits = model(problem)
        labels = tf.placeholder(tf.int32, [None])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        train = tf.train.GradientDescentOptimizer(problem.rate).minimize(loss)
        init = tf.global_variables_initializer()
    with tf.Session(graph=graph) as session:
        session.run(init)
        call = session.make_callable([loss, train], feed_list=[images, labels])

        def step() -> Any:
            value, _ = call(problem.images, problem.labels)
            return value

        yield step


@asynccontextmanager
async def inference(problem: Problem) -> AsyncIterator[Step]:
    """Yield a step that computes the logits of the batch."""
    tf = peers.tensorflow()
    graph = tf.Graph()
    with graph.as_default():
        images, logits = model(problem)
        init = tf.global_variables_initializer()
    with tf.Session(graph=graph) as session:
        session.run(init)
        call = session.make_callable(logits, feed_list=[images])
        yield lambda: summary(call(problem.images))


def model(problem: Problem) -> tuple[Any, Any]:
    """Build the placeholder for images and the logits, in the current graph."""
    tf = peers.tensorflow()
    images = hidden = tf.placeholder(tf.float32, [None, *problem.images.shape[1:]])
    *convolutions, first, last = ((tf.Variable(weights), tf.Variable(bias)) for weights, bias in problem.layers())
    for filters, bias in convolutions:
        hidden = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(hidden, filters, strides=1, padding="SAME"), bias))
        hidden = tf.nn.max_pool(hidden, ksize=2, strides=2, padding="SAME")
    weights, bias = first
    hidden = tf.nn.relu(tf.matmul(tf.reshape(hidden, [-1, weights.shape[0]]), weights) + bias)
    weights, bias = last
    return images, tf.matmul(hidden, weights) + bias
