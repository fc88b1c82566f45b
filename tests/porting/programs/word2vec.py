"""Skip-gram vectors of words by noise-contrastive estimation."""

import math
import random

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

vocabulary_size = 40
batch_size = 32
embedding_size = 16
num_sampled = 8
num_steps = 150

random.seed(0)
data = []
for _ in range(400):  # words of one group stand together
    group = random.randrange(8)
    data += [5 * group + random.randrange(5) for _ in range(6)]


def generate_batch():
    centres = np.random.RandomState(generate_batch.calls).randint(1, len(data) - 1, batch_size)
    generate_batch.calls += 1
    batch = np.array([data[place] for place in centres], dtype=np.int32)
    labels = np.array([[data[place + random.choice([-1, 1])]] for place in centres], dtype=np.int32)
    return batch, labels


generate_batch.calls = 0

graph = tf.Graph()

with graph.as_default():
    tf.set_random_seed(1)
    train_inputs = tf.placeholder(tf.int32, shape=[batch_size])
    train_labels = tf.placeholder(tf.int32, shape=[batch_size, 1])
    with tf.device("/cpu:0"):
        embeddings = tf.Variable(tf.random_uniform([vocabulary_size, embedding_size], -1.0, 1.0))
        embed = tf.nn.embedding_lookup(embeddings, train_inputs)
        nce_weights = tf.Variable(
            tf.truncated_normal([vocabulary_size, embedding_size], stddev=1.0 / math.sqrt(embedding_size))
        )
        nce_biases = tf.Variable(tf.zeros([vocabulary_size]))
    loss = tf.reduce_mean(
        tf.nn.nce_loss(
            weights=nce_weights,
            biases=nce_biases,
            labels=train_labels,
            inputs=embed,
            num_sampled=num_sampled,
            num_classes=vocabulary_size,
        )
    )
    optimizer = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    norm = tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keepdims=True))
    normalized_embeddings = embeddings / norm
    init = tf.global_variables_initializer()

with tf.Session(graph=graph) as session:
    init.run()
    first = average_loss = None
    losses = []
    for step in range(num_steps):
        batch_inputs, batch_labels = generate_batch()
        feed_dict = {train_inputs: batch_inputs, train_labels: batch_labels}
        _, loss_val = session.run([optimizer, loss], feed_dict=feed_dict)
        losses.append(loss_val)
    final_embeddings = normalized_embeddings.eval()

similarity = final_embeddings @ final_embeddings.T
print("shape", similarity.shape)
print("loss %.4f -> %.4f" % (np.mean(losses[:10]), np.mean(losses[-10:])))
