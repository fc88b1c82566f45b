"""Examples written to TFRecords, read again by queue runners, shuffled, batched, and learned."""

import os
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def _bytes_feature(value):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _int64_feature(value):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def convert_to(directory, files=3, each=80):
    rng = np.random.RandomState(0)
    for number in range(files):
        writer = tf.python_io.TFRecordWriter(os.path.join(directory, "train-%d.tfrecords" % number))
        for _ in range(each):
            label = rng.randint(0, 3)
            image = np.clip(80 * label + 30 * rng.randn(16), 0, 255).astype(np.uint8)
            features = {"image_raw": _bytes_feature(image.tobytes()), "label": _int64_feature(label)}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
        writer.close()


def read_and_decode(filename_queue):
    reader = tf.TFRecordReader()
    _, serialized_example = reader.read(filename_queue)
    features = tf.parse_single_example(
        serialized_example,
        features={"image_raw": tf.FixedLenFeature([], tf.string), "label": tf.FixedLenFeature([], tf.int64)},
    )
    image = tf.decode_raw(features["image_raw"], tf.uint8)
    image.set_shape([16])
    image = tf.cast(image, tf.float32) * (1.0 / 255) - 0.5
    return image, tf.cast(features["label"], tf.int32)


def inputs(directory, batch_size, num_epochs):
    with tf.name_scope("input"):
        pattern = os.path.join(directory, "*.tfrecords")
        filename_queue = tf.train.string_input_producer(tf.gfile.Glob(pattern), num_epochs=num_epochs, seed=1)
        image, label = read_and_decode(filename_queue)
        return tf.train.shuffle_batch(
            [image, label], batch_size=batch_size, num_threads=2, capacity=150, min_after_dequeue=50, seed=1
        )


def run_training(directory):
    with tf.Graph().as_default():
        images, labels = inputs(directory, batch_size=24, num_epochs=12)
        w = tf.get_variable("w", [16, 3], initializer=tf.zeros_initializer())
        b = tf.get_variable("b", [3], initializer=tf.zeros_initializer())
        loss = tf.losses.sparse_softmax_cross_entropy(labels, tf.nn.xw_plus_b(images, w, b))
        train_op = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        init_op = tf.group(tf.global_variables_initializer(), tf.local_variables_initializer())
        losses = []
        with tf.Session() as sess:
            sess.run(init_op)
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess=sess, coord=coord)
            try:
                while not coord.should_stop():
                    losses.append(sess.run([loss, train_op])[0])
            except tf.errors.OutOfRangeError:
                print("Done training for %d steps." % len(losses))
            finally:
                coord.request_stop()
            coord.join(threads)
        return losses


def main(_):
    directory = tempfile.mkdtemp()
    convert_to(directory)
    losses = run_training(directory)
    print("loss %.4f -> %.4f" % (losses[0], np.mean(losses[-5:])))


if __name__ == "__main__":
    tf.app.run()
