"""A loop in the manner of estimators: a model function, hooks, a monitored session, training and evaluation."""

import collections
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

ModelSpec = collections.namedtuple("ModelSpec", ["predictions", "loss", "train_op", "eval_metric_ops"])


def model_fn(features, labels, params):
    hidden = features
    for number, size in enumerate(params["hidden_units"]):
        with tf.variable_scope("layer_%d" % number):
            kernel = tf.get_variable(
                "kernel", [hidden.shape[1], size], initializer=tf.glorot_normal_initializer(seed=1)
            )
            bias = tf.get_variable("bias", [size], initializer=tf.zeros_initializer())
            hidden = tf.nn.relu(tf.matmul(hidden, kernel) + bias)
    logits = tf.squeeze(hidden, 1)
    loss = tf.losses.mean_squared_error(labels, logits)
    optimizer = tf.train.AdagradOptimizer(params["learning_rate"])
    train_op = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    metrics = {"mae": tf.metrics.mean_absolute_error(labels, logits)}
    return ModelSpec(logits, loss, train_op, metrics)


class LossHistory(tf.train.SessionRunHook):
    def __init__(self, loss):
        self.loss = loss
        self.values = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(fetches=self.loss, feed_dict={})

    def after_run(self, run_context, run_values):
        self.values.append(run_values.results)

    def end(self, session):
        self.last = session.run(self.loss)


class Estimator(object):
    def __init__(self, model_fn, model_dir, params):
        self.model_fn, self.model_dir, self.params = model_fn, model_dir, params

    def train(self, input_fn, steps):
        with tf.Graph().as_default():
            features, labels = input_fn()
            spec = self.model_fn(features, labels, self.params)
            history = LossHistory(spec.loss)
            hooks = [history, tf.train.StopAtStepHook(num_steps=steps), tf.train.NanTensorHook(spec.loss)]
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=self.model_dir, hooks=hooks, save_checkpoint_steps=50, log_step_count_steps=None
            ) as sess:
                while not sess.should_stop():
                    sess.run(spec.train_op)
        return history

    def evaluate(self, input_fn, steps=1):
        with tf.Graph().as_default():
            features, labels = input_fn()
            spec = self.model_fn(features, labels, self.params)
            value, update = spec.eval_metric_ops["mae"]
            saver = tf.train.Saver()
            with tf.Session() as sess:
                sess.run(tf.local_variables_initializer())
                saver.restore(sess, tf.train.latest_checkpoint(self.model_dir))
                for _ in range(steps):
                    sess.run(update)
                return {"mae": sess.run(value)}


def input_fn():
    rng = np.random.RandomState(0)
    features = rng.randn(100, 5).astype(np.float32)
    labels = np.abs(features.sum(1)).astype(np.float32)
    return tf.constant(features), tf.constant(labels)


def main(unused_argv):
    estimator = Estimator(model_fn, tempfile.mkdtemp(), {"hidden_units": [16, 1], "learning_rate": 0.1})
    history = estimator.train(input_fn, steps=60)
    estimator.train(input_fn, steps=60)
    print(estimator.evaluate(input_fn, steps=2), history.last <= history.values[0])
    print("loss %.4f -> %.4f" % (history.values[0], estimator.evaluate(input_fn)["mae"]))


if __name__ == "__main__":
    tf.app.run()
