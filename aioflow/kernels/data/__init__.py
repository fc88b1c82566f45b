"""Ops on records: CSV, JSON, NumPy files, `tf.train.Example` and summaries."""
