"""A net of inception modules with batch normalisation, in the manner of slim."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

rng = np.random.RandomState(0)
prototypes = rng.rand(3, 8, 8, 3)


def conv2d(inputs, filters, size, scope, is_training, stride=1):
    with tf.variable_scope(scope):
        depth = inputs.get_shape().as_list()[-1]
        weights = tf.get_variable(
            "weights",
            [size, size, depth, filters],
            initializer=tf.glorot_uniform_initializer(seed=len(scope)),
            regularizer=lambda w: 1e-4 * tf.nn.l2_loss(w),
        )
        net = tf.nn.conv2d(inputs, weights, [1, stride, stride, 1], "SAME")
        return tf.nn.relu(batch_norm(net, is_training))


def batch_norm(net, is_training, decay=0.8):
    depth = net.get_shape().as_list()[-1]
    beta = tf.get_variable("beta", [depth], initializer=tf.zeros_initializer())
    mean = tf.get_variable("moving_mean", [depth], initializer=tf.zeros_initializer(), trainable=False)
    variance = tf.get_variable("moving_variance", [depth], initializer=tf.ones_initializer(), trainable=False)
    batch_mean, batch_variance = tf.nn.moments(net, [0, 1, 2])
    for moving, value in ((mean, batch_mean), (variance, batch_variance)):
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign(moving, moving * decay + value * (1 - decay)))
    used_mean, used_variance = tf.cond(is_training, lambda: (batch_mean, batch_variance), lambda: (mean, variance))
    return tf.nn.batch_normalization(net, used_mean, used_variance, beta, None, 1e-3)


def inception_module(net, scope, is_training):
    with tf.variable_scope(scope):
        with tf.variable_scope("Branch_0"):
            branch_0 = conv2d(net, 4, 1, "Conv2d_0a_1x1", is_training)
        with tf.variable_scope("Branch_1"):
            branch_1 = conv2d(net, 4, 1, "Conv2d_0a_1x1", is_training)
            branch_1 = conv2d(branch_1, 6, 3, "Conv2d_0b_3x3", is_training)
        with tf.variable_scope("Branch_2"):
            branch_2 = tf.nn.max_pool(net, [1, 3, 3, 1], [1, 1, 1, 1], "SAME")
            branch_2 = conv2d(branch_2, 4, 1, "Conv2d_0b_1x1", is_training)
        return tf.concat(axis=3, values=[branch_0, branch_1, branch_2])


def inception(images, is_training, num_classes):
    end_points = {}
    with tf.variable_scope("Inception", values=[images]):
        net = conv2d(images, 8, 3, "Conv2d_1a_3x3", is_training, stride=2)
        for name in ("Mixed_3b", "Mixed_3c"):
            net = end_points[name] = inception_module(net, name, is_training)
        with tf.variable_scope("Logits"):
            net = tf.nn.dropout(tf.reduce_mean(net, [1, 2]), keep_prob=tf.cond(is_training, lambda: 0.8, lambda: 1.0))
            weights = tf.get_variable("weights", [net.get_shape()[1], num_classes])
            end_points["Logits"] = tf.matmul(net, weights)
    return end_points["Logits"], end_points


def batch(size=24):
    labels = rng.randint(0, 3, size)
    return prototypes[labels] + 0.2 * rng.randn(size, 8, 8, 3), labels


def main(_):
    tf.set_random_seed(1)
    images = tf.placeholder(tf.float32, [None, 8, 8, 3])
    labels = tf.placeholder(tf.int64, [None])
    is_training = tf.placeholder(tf.bool, [])
    logits, _ = inception(images, is_training, 3)
    tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    total_loss = tf.losses.get_total_loss()
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = tf.train.RMSPropOptimizer(0.005).minimize(total_loss)
    accuracy = tf.reduce_mean(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.float32))

    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        test_images, test_labels = batch(100)
        feed = {images: test_images, labels: test_labels, is_training: False}
        before = sess.run(accuracy, feed_dict=feed)
        for _ in range(60):
            x, y = batch()
            sess.run(train_op, feed_dict={images: x, labels: y, is_training: True})
        print("accuracy %.4f -> %.4f" % (before, accuracy.eval(feed_dict=feed)))


if __name__ == "__main__":
    tf.app.run()
