"""`af.python_io`: TFRecords outside of graphs. What is here blocks, so on a loop it belongs on a thread."""

from aioflow.files.tfrecord import TFRecordCompressionType, TFRecordOptions, TFRecordWriter, tf_record_iterator

__all__ = ["TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter", "tf_record_iterator"]
