"""A variational autoencoder, as a class in the manner of scikit-learn that owns its session."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


class VariationalAutoencoder(object):
    def __init__(self, n_input, n_hidden, optimizer=tf.train.AdamOptimizer()):
        self.n_input = n_input
        self.n_hidden = n_hidden
        self.weights = self._initialize_weights()

        self.x = tf.placeholder(tf.float32, [None, self.n_input])
        self.z_mean = tf.add(tf.matmul(self.x, self.weights["w1"]), self.weights["b1"])
        self.z_log_sigma_sq = tf.add(tf.matmul(self.x, self.weights["log_sigma_w1"]), self.weights["log_sigma_b1"])
        eps = tf.random_normal(tf.stack([tf.shape(self.x)[0], self.n_hidden]), 0, 1, dtype=tf.float32)
        self.z = tf.add(self.z_mean, tf.multiply(tf.sqrt(tf.exp(self.z_log_sigma_sq)), eps))
        self.reconstruction = tf.add(tf.matmul(self.z, self.weights["w2"]), self.weights["b2"])

        reconstr_loss = 0.5 * tf.reduce_sum(tf.pow(tf.subtract(self.reconstruction, self.x), 2.0), 1)
        latent_loss = -0.5 * tf.reduce_sum(
            1 + self.z_log_sigma_sq - tf.square(self.z_mean) - tf.exp(self.z_log_sigma_sq), 1
        )
        self.cost = tf.reduce_mean(reconstr_loss + 0.1 * latent_loss)
        self.optimizer = optimizer.minimize(self.cost)

        init = tf.global_variables_initializer()
        self.sess = tf.Session()
        self.sess.run(init)

    def _initialize_weights(self):
        all_weights = dict()
        glorot = tf.glorot_uniform_initializer(seed=1)
        all_weights["w1"] = tf.get_variable("w1", shape=[self.n_input, self.n_hidden], initializer=glorot)
        all_weights["log_sigma_w1"] = tf.get_variable(
            "log_sigma_w1", shape=[self.n_input, self.n_hidden], initializer=glorot
        )
        all_weights["b1"] = tf.Variable(tf.zeros([self.n_hidden], dtype=tf.float32))
        all_weights["log_sigma_b1"] = tf.Variable(tf.zeros([self.n_hidden], dtype=tf.float32))
        all_weights["w2"] = tf.Variable(tf.zeros([self.n_hidden, self.n_input], dtype=tf.float32))
        all_weights["b2"] = tf.Variable(tf.zeros([self.n_input], dtype=tf.float32))
        return all_weights

    def partial_fit(self, X):
        cost, opt = self.sess.run((self.cost, self.optimizer), feed_dict={self.x: X})
        return cost

    def calc_total_cost(self, X):
        return self.sess.run(self.cost, feed_dict={self.x: X})

    def transform(self, X):
        return self.sess.run(self.z_mean, feed_dict={self.x: X})

    def generate(self, hidden=None):
        if hidden is None:
            hidden = self.sess.run(tf.random_normal([1, self.n_hidden]))
        return self.sess.run(self.reconstruction, feed_dict={self.z: hidden})

    def get_biases(self):
        return self.sess.run(self.weights["b1"])


def get_random_block_from_data(data, batch_size):
    start_index = np.random.randint(0, len(data) - batch_size)
    return data[start_index : (start_index + batch_size)]


np.random.seed(0)
X_train = np.random.randn(1000, 2).dot(np.random.randn(2, 12)) + 0.1 * np.random.randn(1000, 12)

autoencoder = VariationalAutoencoder(n_input=12, n_hidden=2, optimizer=tf.train.AdamOptimizer(learning_rate=0.01))
before = autoencoder.calc_total_cost(X_train)
for epoch in range(15):
    avg_cost = 0.0
    for i in range(1000 // 50):
        avg_cost += autoencoder.partial_fit(get_random_block_from_data(X_train, 50)) / 20
print("generated", autoencoder.generate().shape, "codes", autoencoder.transform(X_train[:3]).shape)
print("loss %.4f -> %.4f" % (before, autoencoder.calc_total_cost(X_train)))
