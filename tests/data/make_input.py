"""Makes `input.json`: what TensorFlow reads, writes, decodes and parses. Run it where TensorFlow is installed."""

import json
import os
import pathlib
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
RECORDS = [b"", b"a", b"payload", bytes(range(256)), b"z" * 700]


def plain(value):
    """Bytes as Latin letters, arrays as lists."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if hasattr(value, "indices"):
        return {part: plain(getattr(value, part)) for part in ("indices", "values", "dense_shape")}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return plain(value.tolist()) if hasattr(value, "tolist") else value


def outcome(build, feeds=None):
    """What it comes to, or the name of the error."""
    with tf.Graph().as_default(), tf.Session() as session:
        try:
            return plain(session.run(build()))
        except tf.errors.OpError as error:
            return type(error).__name__


def records(folder):
    made = {}
    for kind in ("", "ZLIB", "GZIP"):
        name = str(folder / "records")
        with tf.io.TFRecordWriter(name, kind) as writer:
            for record in RECORDS:
                writer.write(record)
        made[kind] = (folder / "records").read_bytes().hex()
    return {"records": plain(RECORDS), "files": made}


FILES = {
    "a.txt": b"h1\r\nx\ry\r\n\r\nlast",
    "b.txt": b"",
    "c.bin": b"HHH" + bytes(range(20)) + b"FF",
}
READINGS = [
    ("TextLineReader", {}, ["a.txt", "missing", "b.txt", "a.txt"]),
    ("TextLineReader", {"skip_header_lines": 1}, ["a.txt", "b.txt"]),
    ("TextLineReader", {"skip_header_lines": 9}, ["a.txt"]),
    ("FixedLengthRecordReader", {"record_bytes": 6, "header_bytes": 3, "footer_bytes": 2}, ["c.bin"]),
    ("FixedLengthRecordReader", {"record_bytes": 6, "hop_bytes": 2, "header_bytes": 3}, ["c.bin"]),
    ("FixedLengthRecordReader", {"record_bytes": 6, "hop_bytes": 8}, ["c.bin"]),
    ("FixedLengthRecordReader", {"record_bytes": 60}, ["c.bin"]),
    ("WholeFileReader", {}, ["c.bin", "b.txt"]),
    ("IdentityReader", {}, ["a.txt", "missing"]),
]


def reading(folder, reader, arguments, names):
    with tf.Graph().as_default(), tf.Session() as session:
        queue = tf.FIFOQueue(10, tf.string, shapes=[()])
        made = getattr(tf, reader)(**arguments)
        record = made.read(queue)
        session.run(queue.enqueue_many([[str(folder / name) for name in names]]))
        session.run(queue.close())
        found = []
        while found[-1:] != ["OutOfRangeError"] and len(found) < 12:
            try:
                key, value = session.run(record)
                found.append(plain([key.removeprefix(str(folder).encode() + b"/"), value]))
            except tf.errors.OpError as error:
                found.append(type(error).__name__)
        counts = session.run([made.num_records_produced(), made.num_work_units_completed()])
    return {"reader": reader, "arguments": arguments, "names": names, "found": found, "counts": plain(counts)}


CSV = [
    (["1,2.5,x", "-3,,"], [[0], [1.5], ["d"]], {}),
    (['"a,b","say ""hi""",""', "a,,c"], [["1"], ["2"], ["3"]], {}),
    (["a b|c", "|"], [["x"], ["y"]], {"field_delim": "|"}),
    (['a",b'], [["x"], ["y"]], {}),
    (['a",b'], [["x"], ["y"]], {"use_quote_delim": False}),
    (['"a"x,b'], [["x"], ["y"]], {}),
    (['"a,b'], [["x"], ["y"]], {}),
    (['"a,b"'], [["x"]], {}),
    (["1,2"], [[0]], {}),
    (["1"], [[0], [0]], {}),
    ([""], [[0]], {}),
    (["NA,1"], [[7], [0]], {"na_value": "NA"}),
    (["NA,1"], [[7], [0]], {}),
    (["1,b,3", "4,,6"], [[0], [9.0]], {"select_cols": [0, 2]}),
    (["1,b"], [[0], [9.0]], {"select_cols": [0, 2]}),
    (["4294967296"], [[0]], {}),
    ([" 5 ,1e3"], [[0], [0.0]], {}),
    (["nan,inf"], [[0.0], [0.0]], {}),
    (["a\nb"], [["x"]], {}),
    (["\na"], [["x"]], {}),
    (["a\r\n"], [["x"]], {}),
    (['"a\nb",c'], [["x"], ["y"]], {}),
    (["a,"], [["x"], ["y"]], {}),
    ([","], [[1], [2]], {}),
]


def csv(lines, defaults, options):
    result = outcome(lambda: tf.decode_csv(tf.constant(lines), defaults, **options))
    return {"records": lines, "defaults": defaults, "options": options, "result": result}


def feature(*values):
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(**features):
    return tf.train.Example(features=tf.train.Features(feature=features))


EXAMPLES = [
    example(i=feature(3), f=feature(1.5, -2.0), s=feature(b"x"), v=feature(1, 2, 3), p=feature(4), w=feature(0.5)),
    example(
        i=feature(-1), f=feature(0.0, 1e30), v=feature(-(1 << 63), (1 << 63) - 1), p=feature(0, 7), w=feature(1.0, 2.0)
    ),
    example(i=feature(1 << 40), f=feature(float("inf"), 3.25), s=feature(b"\xff\x00"), e=tf.train.Feature()),
    example(i=feature(0), f=feature(1.0, 2.0), v=feature(*range(-40, 40))),
]
FEATURES = {
    "i": ("FixedLenFeature", [], "int64"),
    "f": ("FixedLenFeature", [2], "float32"),
    "s": ("FixedLenFeature", [], "string", "none"),
    "e": ("FixedLenFeature", [1, 2], "int64", [[5, 6]]),
    "v": ("VarLenFeature", "int64"),
    "w": ("VarLenFeature", "float32"),
    "q": ("SparseFeature", "p", "w", "float32", 10),
    "d": ("FixedLenSequenceFeature", [], "string", True),
}
WRONG = [
    {"i": ("FixedLenFeature", [2], "int64")},
    {"i": ("FixedLenFeature", [], "float32")},
    {"v": ("VarLenFeature", "string")},
    {"s": ("FixedLenFeature", [], "string")},
    {"f": ("FixedLenSequenceFeature", [3], "float32", True)},
]


def sequence_of(context, lists):
    return tf.train.SequenceExample(
        context=tf.train.Features(feature={key: feature(*values) for key, values in context.items()}),
        feature_lists=tf.train.FeatureLists(
            feature_list={
                key: tf.train.FeatureList(feature=[feature(*values) for values in steps])
                for key, steps in lists.items()
            }
        ),
    )


SEQUENCES = [
    sequence_of(
        {"n": [2], "m": [b"x", b"y"]}, {"t": [[1.0, 2.0], [3.0, 4.0]], "w": [[b"a"], [b"b", b"c"]], "i": [[5]]}
    ),
    sequence_of({"n": [-1]}, {"t": [], "w": [], "i": []}),
    sequence_of({"n": [7]}, {"t": [[5.0, 6.0], [7.0, 8.0], [9.0, 10.0]], "w": [[b"d"]], "o": [[b"only"]]}),
]
SEQUENCES_WANTED = [
    (
        {"n": ("FixedLenFeature", [], "int64"), "m": ("VarLenFeature", "string")},
        {
            "t": ("FixedLenSequenceFeature", [2], "float32"),
            "w": ("VarLenFeature", "string"),
            "i": ("FixedLenSequenceFeature", [], "int64", True),
            "o": ("FixedLenSequenceFeature", [1], "string", True),
        },
    ),
    ({}, {"w": ("VarLenFeature", "string")}),
    ({"n": ("FixedLenFeature", [], "int64")}, {}),
    ({}, {"i": ("FixedLenSequenceFeature", [], "int64")}),
    ({}, {"t": ("FixedLenSequenceFeature", [], "float32")}),
    ({}, {"t": ("FixedLenSequenceFeature", [2], "int64")}),
    ({"n": ("FixedLenFeature", [2], "int64")}, {"t": ("VarLenFeature", "float32")}),
]


def wanted(features):
    made = {}
    for key, (kind, *arguments) in features.items():
        arguments = [getattr(tf, a) if a in ("int64", "float32", "string") else a for a in map(hashable, arguments)]
        made[key] = getattr(tf, kind)(*[list(a) if isinstance(a, tuple) else a for a in arguments])
    return made


def hashable(value):
    return tuple(map(hashable, value)) if isinstance(value, list) else value


def examples():
    data = [each.SerializeToString() for each in EXAMPLES]
    sequence = tf.train.SequenceExample(
        context=tf.train.Features(feature={"n": feature(2)}),
        feature_lists=tf.train.FeatureLists(
            feature_list={
                "t": tf.train.FeatureList(feature=[feature(1.0, 2.0), feature(3.0, 4.0)]),
                "w": tf.train.FeatureList(feature=[feature(b"a"), feature(b"b", b"c")]),
            }
        ),
    ).SerializeToString()
    context, steps = (
        {"n": ("FixedLenFeature", [], "int64")},
        {
            "t": ("FixedLenSequenceFeature", [2], "float32"),
            "w": ("VarLenFeature", "string"),
        },
    )
    sequences = [each.SerializeToString() for each in SEQUENCES]
    words = (
        '{"features": {"feature": {"i": {"int64List": {"value": ["7", 8]}}, "s": {"bytes_list": {"value": ["aGk="]}}}}}'
    )
    return {
        "serialized": plain(data),
        "features": FEATURES,
        "batch": outcome(lambda: tf.parse_example(data, wanted(FEATURES))),
        "single": [outcome(lambda one=one: tf.parse_single_example(one, wanted(FEATURES))) for one in data],
        "wrong": [[features, outcome(lambda f=features: tf.parse_example(data, wanted(f)))] for features in WRONG],
        "sequence": plain(sequence),
        "context_features": context,
        "sequence_features": steps,
        "sequence_result": outcome(
            lambda: list(tf.parse_single_sequence_example(sequence, wanted(context), wanted(steps)))
        ),
        "sequences": plain(sequences),
        "sequences_results": [
            [
                context,
                steps,
                outcome(lambda c=context, s=steps: list(tf.io.parse_sequence_example(sequences, wanted(c), wanted(s)))),
            ]
            for context, steps in SEQUENCES_WANTED
        ],
        "json": words,
        "json_result": outcome(
            lambda: tf.parse_single_example(
                tf.decode_json_example(words),
                {"i": tf.FixedLenFeature([2], tf.int64), "s": tf.FixedLenFeature([], tf.string)},
            )
        ),
    }


def pictures():
    pixels = [[[10, 20, 30], [255, 0, 128]], [[0, 0, 0], [1, 2, 3]]]
    grey = [[[1000], [65535]]]
    made = {"pixels": pixels, "grey": grey}
    made["png"] = outcome(lambda: tf.image.encode_png(tf.constant(pixels, tf.uint8)))
    made["png16"] = outcome(lambda: tf.image.encode_png(tf.constant(grey, tf.uint16)))

    def png():
        return tf.constant(made["png"].encode("latin-1"))

    made["as_uint16"] = outcome(lambda: tf.image.decode_png(png(), dtype=tf.uint16))
    made["with_alpha"] = outcome(lambda: tf.image.decode_png(png(), channels=4))
    made["png16_as_uint8"] = outcome(lambda: tf.image.decode_png(tf.constant(made["png16"].encode("latin-1"))))
    smooth = [[[x, y, 128] for x in range(0, 256, 16)] for y in range(0, 256, 16)]
    made["smooth"] = smooth
    made["jpeg"] = outcome(lambda: tf.image.encode_jpeg(tf.constant(smooth, tf.uint8)))
    made["jpeg_pixels"] = outcome(lambda: tf.image.decode_jpeg(tf.constant(made["jpeg"].encode("latin-1"))))
    return made


with tempfile.TemporaryDirectory() as made_in:
    folder = pathlib.Path(made_in)
    for name, contents in FILES.items():
        (folder / name).write_bytes(contents)
    table = {
        "made with": f"TensorFlow {tf.__version__}, tests/data/make_input.py",
        "tfrecord": records(folder),
        "files": plain(FILES),
        "readings": [reading(folder, *each) for each in READINGS],
        "csv": [csv(*each) for each in CSV],
        "examples": examples(),
        "pictures": pictures(),
    }
pathlib.Path(__file__).with_name("input.json").write_text(json.dumps(table, indent=None, separators=(",", ":")) + "\n")
