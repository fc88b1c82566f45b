"""Replicas that train one net between them: a process for each task, `--job_name`, `--task_index`."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "localhost:2222", "Hosts of the parameter servers.")
flags.DEFINE_string("worker_hosts", "localhost:2223,localhost:2224", "Hosts of the workers.")
flags.DEFINE_string("job_name", "worker", "Either 'ps' or 'worker'.")
flags.DEFINE_integer("task_index", 0, "The number of the task in its job.")
flags.DEFINE_integer("steps", 60, "Steps of the whole training.")
FLAGS = flags.FLAGS


def build():
    global_step = tf.train.get_or_create_global_step()
    x = tf.placeholder(tf.float32, [None, 64])
    y_ = tf.placeholder(tf.int64, [None])
    hid_w = tf.Variable(tf.truncated_normal([64, 32], stddev=0.1, seed=1), name="hid_w")
    hid_b = tf.Variable(tf.zeros([32]), name="hid_b")
    sm_w = tf.Variable(tf.truncated_normal([32, 10], stddev=0.1, seed=2), name="sm_w")
    sm_b = tf.Variable(tf.zeros([10]), name="sm_b")
    hid = tf.nn.relu(tf.nn.xw_plus_b(x, hid_w, hid_b))
    logits = tf.nn.xw_plus_b(hid, sm_w, sm_b)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y_, logits=logits))
    return global_step, x, y_, loss


def main(_):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return

    workers = len(FLAGS.worker_hosts.split(","))
    is_chief = FLAGS.task_index == 0
    with tf.device(
        tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % FLAGS.task_index)
    ):
        global_step, x, y_, loss = build()
        opt = tf.train.SyncReplicasOptimizer(
            tf.train.AdamOptimizer(0.01), replicas_to_aggregate=workers, total_num_replicas=workers
        )
        train_op = opt.minimize(loss, global_step=global_step)
    hooks = [opt.make_session_run_hook(is_chief), tf.train.StopAtStepHook(last_step=FLAGS.steps)]

    prototypes = np.random.RandomState(0).rand(10, 64)
    rng = np.random.RandomState(1 + FLAGS.task_index)
    losses = []
    with tf.train.MonitoredTrainingSession(master=server.target, is_chief=is_chief, hooks=hooks) as mon_sess:
        while not mon_sess.should_stop():
            labels = rng.randint(0, 10, 50)
            images = prototypes[labels] + 0.2 * rng.randn(50, 64)
            _, value = mon_sess.run([train_op, loss], feed_dict={x: images, y_: labels})
            losses.append(value)
    print("loss %.4f -> %.4f" % (losses[0], losses[-1]), flush=True)


if __name__ == "__main__":
    tf.app.run()
