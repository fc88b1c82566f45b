"""`af.io`: files, records and parsers under TensorFlow's names."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.files.graph_files": "write_graph",
    "aioflow.files.tfrecord": "TFRecordWriter tf_record_iterator",
    "aioflow.files.tfrecord_options": "TFRecordCompressionType TFRecordOptions",
    "aioflow.kernels.data.decoders": "decode_compressed decode_csv decode_npy decode_raw",
    "aioflow.kernels.data.example_wire": "make_example make_sequence_example",
    "aioflow.kernels.data.json_examples": "decode_json_example",
    "aioflow.kernels.data.tensor_messages": "parse_tensor serialize_tensor",
    "aioflow.kernels.image.decode_image": (
        "decode_and_crop_jpeg decode_bmp decode_gif decode_jpeg decode_png encode_jpeg encode_png extract_jpeg_shape "
        "is_jpeg"
    ),
    "aioflow.kernels.image.webp": "decode_webp",
    "aioflow.kernels.state.readers": "matching_files read_file write_file",
    "aioflow.kernels.text.string_hash": "decode_base64 encode_base64",
    "aioflow.library": "gfile=io_gfile",
    "aioflow.library.decoding": "decode_image",
    "aioflow.library.parsing": (
        "FixedLenFeature FixedLenSequenceFeature SparseFeature VarLenFeature parse_example parse_sequence_example "
        "parse_single_example parse_single_sequence_example"
    ),
    "aioflow.library.ragged.feature": "RaggedFeature",
    "aioflow.library.queues": "FIFOQueue PaddingFIFOQueue PriorityQueue QueueBase RandomShuffleQueue",
    "aioflow.library.sparse": "deserialize_many_sparse serialize_many_sparse serialize_sparse",
    "aioflow.train.input": "match_filenames_once",
})  # fmt: skip
