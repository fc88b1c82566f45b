"""A denoising autoencoder with summaries and a checkpoint."""

import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

learning_rate = 0.05
training_epochs = 20
batch_size = 50
log_dir = tempfile.mkdtemp()

np.random.seed(0)
data = 1 / (1 + np.exp(-np.random.randn(500, 3).dot(np.random.randn(3, 20))))

X = tf.placeholder("float", [None, 20], name="X")
noisy = X + 0.05 * tf.random_normal(tf.shape(X), seed=1)

weights = {
    "encoder": tf.Variable(tf.random_normal([20, 8], stddev=0.3, seed=2)),
    "decoder": tf.Variable(tf.random_normal([8, 20], stddev=0.3, seed=3)),
}
biases = {"encoder": tf.Variable(tf.zeros([8])), "decoder": tf.Variable(tf.zeros([20]))}


def encoder(x):
    return tf.nn.sigmoid(tf.add(tf.matmul(x, weights["encoder"]), biases["encoder"]))


def decoder(x):
    return tf.nn.sigmoid(tf.add(tf.matmul(x, weights["decoder"]), biases["decoder"]))


y_pred = decoder(encoder(noisy))
cost = tf.reduce_mean(tf.pow(X - y_pred, 2))
optimizer = tf.train.RMSPropOptimizer(learning_rate).minimize(cost)
tf.summary.scalar("cost", cost)
tf.summary.histogram("encoder", weights["encoder"])
merged = tf.summary.merge_all()
saver = tf.train.Saver()
init = tf.global_variables_initializer()

with tf.Session() as sess:
    sess.run(init)
    writer = tf.summary.FileWriter(log_dir, sess.graph)
    before = sess.run(cost, feed_dict={X: data})
    for epoch in range(training_epochs):
        for i in range(len(data) // batch_size):
            batch = data[i * batch_size : (i + 1) * batch_size]
            _, c, summary = sess.run([optimizer, cost, merged], feed_dict={X: batch})
        writer.add_summary(summary, epoch)
    writer.close()
    path = saver.save(sess, log_dir + "/model.ckpt")

with tf.Session() as sess:
    saver.restore(sess, path)
    after = sess.run(cost, feed_dict={X: data})

print("loss %.4f -> %.4f" % (before, after))
