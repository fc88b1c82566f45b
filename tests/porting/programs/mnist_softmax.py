"""Softmax regression on small pictures of digits, as a script that types along."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

rng = np.random.RandomState(0)
prototypes = rng.rand(10, 64)


def next_batch(size):
    labels = rng.randint(0, 10, size)
    images = prototypes[labels] + 0.3 * rng.randn(size, 64)
    return images, np.eye(10)[labels]


x = tf.placeholder(tf.float32, [None, 64])
y_ = tf.placeholder(tf.float32, [None, 10])
W = tf.Variable(tf.zeros([64, 10]))
b = tf.Variable(tf.zeros([10]))
y = tf.matmul(x, W) + b
cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=y_, logits=y))
train_step = tf.train.GradientDescentOptimizer(0.5).minimize(cross_entropy)
correct_prediction = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
accuracy = tf.reduce_mean(tf.cast(correct_prediction, tf.float32))

sess = tf.InteractiveSession()
tf.global_variables_initializer().run()
test_images, test_labels = next_batch(500)
before = accuracy.eval({x: test_images, y_: test_labels})
for _ in range(200):
    batch_xs, batch_ys = next_batch(50)
    train_step.run(feed_dict={x: batch_xs, y_: batch_ys})
after = sess.run(accuracy, feed_dict={x: test_images, y_: test_labels})
print("accuracy %.4f -> %.4f" % (before, after))
sess.close()
