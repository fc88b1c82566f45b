"""A convolutional net on pictures that threads put into a queue."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

BATCH = 32
rng = np.random.RandomState(1)
prototypes = rng.rand(4, 8, 8, 1).astype(np.float32)


def weight_variable(shape):
    return tf.Variable(tf.truncated_normal(shape, stddev=0.1, seed=1))


def bias_variable(shape):
    return tf.Variable(tf.constant(0.1, shape=shape))


def conv2d(x, W):
    return tf.nn.conv2d(x, W, strides=[1, 1, 1, 1], padding="SAME")


def max_pool_2x2(x):
    return tf.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")


def inputs(size, epochs):
    labels = rng.randint(0, 4, size).astype(np.int32)
    images = prototypes[labels] + 0.3 * rng.randn(size, 8, 8, 1).astype(np.float32)
    image, label = tf.train.slice_input_producer([images, labels], num_epochs=epochs, seed=1)
    queue = tf.RandomShuffleQueue(200, 100, [tf.float32, tf.int32], shapes=[[8, 8, 1], []], seed=1)
    enqueue = queue.enqueue([image, label])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue] * 2))
    return queue.dequeue_many(BATCH)


def model(images):
    hidden = tf.nn.relu(conv2d(images, weight_variable([3, 3, 1, 8])) + bias_variable([8]))
    hidden = max_pool_2x2(hidden)
    hidden = tf.nn.relu(conv2d(hidden, weight_variable([3, 3, 8, 16])) + bias_variable([16]))
    flat = tf.reshape(max_pool_2x2(hidden), [-1, 2 * 2 * 16])
    return tf.matmul(flat, weight_variable([64, 4])) + bias_variable([4])


def train():
    images, labels = inputs(512, epochs=6)
    logits = model(images)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    train_op = tf.train.AdamOptimizer(0.01).minimize(loss)
    init_op = tf.group(tf.global_variables_initializer(), tf.local_variables_initializer())

    sess = tf.Session()
    sess.run(init_op)
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    losses = []
    try:
        while not coord.should_stop():
            _, value = sess.run([train_op, loss])
            losses.append(value)
    except tf.errors.OutOfRangeError:
        print("done after %d steps" % len(losses))
    finally:
        coord.request_stop()
    coord.join(threads)
    sess.close()
    print("loss %.4f -> %.4f" % (losses[0], np.mean(losses[-5:])))


if __name__ == "__main__":
    train()
