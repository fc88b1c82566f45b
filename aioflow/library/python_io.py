"""`af.python_io`: TFRecords outside of graphs. These functions block: call them on a thread in an event loop."""

from aioflow.files.tfrecord import TFRecordCompressionType, TFRecordOptions, TFRecordWriter, tf_record_iterator

__all__ = ["TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter", "tf_record_iterator"]
