"""`af.python_io`: TFRecords outside of graphs. What is here blocks, so on a loop it belongs on a thread."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.files.tfrecord": "tf_record_iterator TFRecordCompressionType TFRecordOptions TFRecordWriter",
})  # fmt: skip
