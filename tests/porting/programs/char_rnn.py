"""A recurrent net that learns a text by its characters, is saved, restored, and writes."""

import os
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

TEXT = "the quick brown fox jumps over the lazy dog. " * 40
CHARS = sorted(set(TEXT))
VOCABULARY = {char: number for number, char in enumerate(CHARS)}


class Model:
    def __init__(self, batch_size, seq_length, rnn_size=48):
        cell = tf.nn.rnn_cell.BasicLSTMCell(rnn_size)
        self.input_data = tf.placeholder(tf.int32, [batch_size, seq_length])
        self.targets = tf.placeholder(tf.int32, [batch_size, seq_length])
        self.initial_state = cell.zero_state(batch_size, tf.float32)
        with tf.variable_scope("rnnlm"):
            embedding = tf.get_variable("embedding", [len(CHARS), rnn_size])
            softmax_w = tf.get_variable("softmax_w", [rnn_size, len(CHARS)])
            softmax_b = tf.get_variable("softmax_b", [len(CHARS)], initializer=tf.zeros_initializer())
            inputs = tf.nn.embedding_lookup(embedding, self.input_data)
            outputs, self.final_state = tf.nn.dynamic_rnn(cell, inputs, initial_state=self.initial_state)
        logits = tf.matmul(tf.reshape(outputs, [-1, rnn_size]), softmax_w) + softmax_b
        self.probs = tf.nn.softmax(logits)
        labels = tf.reshape(self.targets, [-1])
        self.cost = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        tvars = tf.trainable_variables()
        grads, _ = tf.clip_by_global_norm(tf.gradients(self.cost, tvars), 5.0)
        self.train_op = tf.train.AdamOptimizer(0.01).apply_gradients(zip(grads, tvars))

    def sample(self, sess, num, prime):
        state = sess.run(self.initial_state)
        text = prime
        for char in prime[:-1]:
            state = sess.run(self.final_state, {self.input_data: [[VOCABULARY[char]]], self.initial_state: state})
        for _ in range(num):
            feed = {self.input_data: [[VOCABULARY[text[-1]]]], self.initial_state: state}
            probs, state = sess.run([self.probs, self.final_state], feed)
            text += CHARS[np.argmax(probs[0])]
        return text


def train(save_dir):
    numbers = np.array([VOCABULARY[char] for char in TEXT[: 8 * 200 + 1]])
    xs, ys = numbers[:-1].reshape(8, -1), numbers[1:].reshape(8, -1)
    model = Model(8, 20)
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        saver = tf.train.Saver(tf.global_variables())
        for epoch in range(10):
            state = sess.run(model.initial_state)
            for start in range(0, xs.shape[1], 20):
                feed = {model.input_data: xs[:, start : start + 20], model.targets: ys[:, start : start + 20]}
                feed[model.initial_state] = state
                train_loss, state, _ = sess.run([model.cost, model.final_state, model.train_op], feed)
                losses.append(train_loss)
        saver.save(sess, os.path.join(save_dir, "model.ckpt"), global_step=epoch)
    return losses


def sample(save_dir):
    model = Model(1, 1)
    with tf.Session() as sess:
        tf.global_variables_initializer().run()
        saver = tf.train.Saver(tf.global_variables())
        ckpt = tf.train.get_checkpoint_state(save_dir)
        if ckpt and ckpt.model_checkpoint_path:
            saver.restore(sess, ckpt.model_checkpoint_path)
            print(model.sample(sess, 30, "the quick"))


def main():
    save_dir = tempfile.mkdtemp()
    tf.set_random_seed(2)
    losses = train(save_dir)
    tf.reset_default_graph()
    sample(save_dir)
    print("loss %.4f -> %.4f" % (losses[0], losses[-1]))


if __name__ == "__main__":
    main()
