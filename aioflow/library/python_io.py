"""`af.python_io`: TFRecords outside of graphs. These functions block: call them on a thread in an event loop."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.files.tfrecord": "tf_record_iterator TFRecordWriter",
    "aioflow.files.tfrecord_options": "TFRecordCompressionType TFRecordOptions",
})  # fmt: skip
