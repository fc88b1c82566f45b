"""An encoder and a decoder with attention, which learn to turn a sequence round."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

LENGTH, SYMBOLS, UNITS, BATCH = 4, 6, 32, 32
rng = np.random.RandomState(0)


def batch():
    source = rng.randint(1, SYMBOLS, [BATCH, LENGTH])
    return source, source[:, ::-1]


def encode(source):
    with tf.variable_scope("encoder"):
        embedding = tf.get_variable("embedding", [SYMBOLS, UNITS])
        cell = tf.nn.rnn_cell.GRUCell(UNITS)
        return tf.nn.dynamic_rnn(cell, tf.nn.embedding_lookup(embedding, source), dtype=tf.float32)


def attend(query, memory):
    scores = tf.reduce_sum(memory * tf.expand_dims(query, 1), axis=2)
    weights = tf.nn.softmax(scores)
    return tf.reduce_sum(memory * tf.expand_dims(weights, 2), axis=1)


def decode(memory, state, target):
    with tf.variable_scope("decoder"):
        embedding = tf.get_variable("embedding", [SYMBOLS, UNITS])
        projection = tf.get_variable("projection", [2 * UNITS, SYMBOLS])
        cell = tf.nn.rnn_cell.GRUCell(UNITS)
        previous = tf.pad(target[:, :-1], [[0, 0], [1, 0]])
        logits = []
        for time in range(LENGTH):
            inputs = tf.nn.embedding_lookup(embedding, previous[:, time])
            output, state = cell(inputs, state)
            context = attend(output, memory)
            logits.append(tf.matmul(tf.concat([output, context], 1), projection))
        return tf.stack(logits, axis=1)


class Seq2Seq(object):
    def __init__(self):
        self.source = tf.placeholder(tf.int32, [None, LENGTH], name="source")
        self.target = tf.placeholder(tf.int32, [None, LENGTH], name="target")
        memory, state = encode(self.source)
        logits = decode(memory, state, self.target)
        self.loss = tf.losses.sparse_softmax_cross_entropy(self.target, logits)
        self.global_step = tf.train.get_or_create_global_step()
        rate = tf.train.exponential_decay(0.01, self.global_step, 100, 0.8)
        optimizer = tf.train.AdamOptimizer(rate)
        gradients = [(tf.clip_by_norm(g, 5.0), v) for g, v in optimizer.compute_gradients(self.loss)]
        self.train_op = optimizer.apply_gradients(gradients, global_step=self.global_step)
        correct = tf.equal(tf.cast(tf.argmax(logits, 2), tf.int32), self.target)
        self.accuracy = tf.reduce_mean(tf.to_float(correct))

    def step(self, session, training):
        source, target = batch()
        fetches = {"loss": self.loss, "accuracy": self.accuracy}
        if training:
            fetches["train"] = self.train_op
        return session.run(fetches, feed_dict={self.source: source, self.target: target})


def main(argv=None):
    tf.set_random_seed(1)
    model = Seq2Seq()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        before = model.step(session, training=False)["accuracy"]
        for _ in range(250):
            model.step(session, training=True)
        after = np.mean([model.step(session, training=False)["accuracy"] for _ in range(5)])
    print("accuracy %.4f -> %.4f" % (before, after))


if __name__ == "__main__":
    tf.app.run(main=main)
