"""Datasets: async pipelines of elements as values, from arrays, generators and files, with the names of `tf.data`.

Input: arrays, generators, files, and functions of the user. Output: `async for` over NumPy values, whose position can
be saved, iterators in graphs, and feeds of the queues of a session. `dataset` is the face; each other module holds the
stages of one kind. A stage is a description, `stage` says how a cursor runs it. No module knows executors, plans or
kernels, except the decoders of values and of pictures, and the ops of iterators and tables.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    ".": "experimental",
    "aioflow.data.checks": "AUTOTUNE INFINITE_CARDINALITY UNKNOWN_CARDINALITY",
    "aioflow.data.dataset": "Dataset",
    "aioflow.data.feeding": "NumpyIterator",
    "aioflow.data.file_datasets": "CsvDataset FixedLengthRecordDataset TFRecordDataset TextLineDataset",
    "aioflow.data.graph_iterator": "Iterator make_initializable_iterator make_one_shot_iterator",
    "aioflow.data.image_files": "ImageDataset image_dataset_from_directory",
    "aioflow.data.iterator": "DatasetIterator",
    "aioflow.data.options": "Options ThreadingOptions",
    "aioflow.data.structures": "DatasetSpec get_output_classes get_output_shapes get_output_types",
})  # fmt: skip
