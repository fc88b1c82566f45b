"""A generative adversarial net of points, with flags."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

flags = tf.app.flags
flags.DEFINE_integer("steps", 300, "The number of training steps.")
flags.DEFINE_float("learning_rate", 0.01, "The rate of both players.")
flags.DEFINE_boolean("verbose", False, "Print the losses.")
FLAGS = flags.FLAGS


def linear(x, size, name):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [x.get_shape()[1], size], initializer=tf.random_normal_initializer(stddev=0.3, seed=1))
        b = tf.get_variable("b", [size], initializer=tf.constant_initializer(0.0))
        return tf.matmul(x, w) + b


def generator(z):
    with tf.variable_scope("G"):
        return linear(tf.nn.softplus(linear(z, 8, "g0")), 1, "g1")


def discriminator(x, reuse=False):
    with tf.variable_scope("D", reuse=reuse):
        hidden = tf.tanh(linear(x, 16, "d0"))
        return linear(tf.tanh(linear(hidden, 16, "d1")), 1, "d2")


def cross_entropy(logits, target):
    labels = tf.fill(tf.shape(logits), target)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=labels))


def samples(session, output, z, rng):
    return session.run(output, {z: rng.randn(500, 1)})


def main(_):
    rng = np.random.RandomState(0)
    tf.set_random_seed(3)
    x = tf.placeholder(tf.float32, [None, 1])
    z = tf.placeholder(tf.float32, [None, 1])
    g = generator(z)
    real, fake = discriminator(x), discriminator(g, reuse=True)
    d_loss = cross_entropy(real, 1.0) + cross_entropy(fake, 0.0)
    g_loss = cross_entropy(fake, 1.0)
    d_vars = [v for v in tf.trainable_variables() if v.name.startswith("D/")]
    g_vars = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope="G")
    d_step = tf.train.AdamOptimizer(FLAGS.learning_rate).minimize(d_loss, var_list=d_vars)
    g_step = tf.train.AdamOptimizer(FLAGS.learning_rate).minimize(g_loss, var_list=g_vars)

    config = tf.ConfigProto(allow_soft_placement=True)
    config.gpu_options.allow_growth = True
    with tf.Session(config=config) as session:
        tf.global_variables_initializer().run()
        before = abs(samples(session, g, z, rng).mean() - 4.0)
        for step in range(FLAGS.steps):
            batch = 4.0 + 0.5 * rng.randn(64, 1)
            loss_d, _ = session.run([d_loss, d_step], {x: batch, z: rng.randn(64, 1)})
            loss_g, _ = session.run([g_loss, g_step], {z: rng.randn(64, 1)})
            if FLAGS.verbose and step % 50 == 0:
                print("%d: %.4f\t%.4f" % (step, loss_d, loss_g))
        after = abs(samples(session, g, z, rng).mean() - 4.0)
    print("loss %.4f -> %.4f" % (before, after))


if __name__ == "__main__":
    tf.app.run()
