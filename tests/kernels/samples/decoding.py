"""Samples of what decodes text and bytes."""

import io
import json

import numpy as np

from aioflow.kernels.data import decoders as decoding
from aioflow.kernels.data import json_examples, parse_example
from aioflow.kernels.data.example_wire import make_example, make_sequence_example
from aioflow.kernels.image import decode_image, jpeg_quality, webp
from aioflow.tensors.dtypes import float32, int64, uint16
from aioflow.tensors.dtypes import string as string_
from aioflow.tensors.shape import TensorShape

from . import sample


def text(*items):
    made = np.empty(len(items), object)
    made[:] = items
    return made


def one(item):
    made = np.empty((), object)
    made[()] = item
    return made


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


LINES = text(b"1,2.5,x", b',-1e3,"a,""b"""')
DEFAULTS = (np.array([7], np.int64), np.array([0.0], np.float32), text(b""))


def csv(lines, *defaults):
    return decoding.decode_csv(lines, list(defaults))


def columns(lines, *defaults):
    return [np.array([1, 7]), np.array([2.5, -1e3], np.float32), text(b"x", b'a,"b"')]


sample("decode_csv", csv, LINES, *DEFAULTS, reference=columns)
sample("decode_csv", lambda x, d: decoding.decode_csv(x, [d]), np.zeros((0, 2), object), DEFAULTS[0],
       reference=lambda x, d: np.zeros((0, 2), np.int64))  # fmt: skip
sample("decode_csv", lambda x, d: decoding.decode_csv(x, [d]), one(b"5"), DEFAULTS[0],
       reference=lambda x, d: np.int64(5))  # fmt: skip

GRID = np.arange(6, dtype=np.float32).reshape(2, 3)
sample("decode_npy", lambda x: decoding.decode_npy(x, float32), one(npy(GRID)), reference=lambda x: GRID)
sample("decode_npy", lambda x: decoding.decode_npy(x, float32, [3, 2]), one(npy(np.asfortranarray(GRID.T))),
       reference=lambda x: GRID.T)  # fmt: skip

sample("decode_compressed", lambda x: decoding.decode_compressed(x), text(b"a", b""), reference=lambda x: x)

WORDS = {"features": {"feature": {"n": {"int64List": {"value": ["3", -4]}}}}}
sample("decode_json_example", json_examples.decode_json_example, text(json.dumps(WORDS).encode(), b"{}"),
       reference=lambda x: text(make_example({"n": [3, -4]}), make_example({})))  # fmt: skip

EXAMPLES = text(make_example({"n": 1, "w": [b"a", b"b"]}), make_example({"n": 2}))
NONE = np.zeros(0, object)


def parsed(serialized, names, default):
    shapes = (TensorShape(()),)
    return parse_example.parse_example(serialized, names, [default], ("w",), (string_,), ("n",), shapes)


sample("parse_example", parsed, EXAMPLES, NONE, np.zeros(0, np.int64),
       reference=lambda *given: [
           np.array([[0, 0], [0, 1]]), text(b"a", b"b"), np.array([2, 2]), np.array([1, 2]),
       ])  # fmt: skip

SEQUENCE = make_sequence_example({"n": 5}, {"t": [[1.0, 2.0], [3.0, 4.0]], "w": ["a", ["b", "c"]]})


def sequence(serialized, names, default):
    return parse_example.parse_sequence_example(
        serialized, names, [default], (), (), ("n",), (TensorShape(()),), ("w",), (string_,), ("t",), (float32,),
        (TensorShape([2]),), (),
    )  # fmt: skip


sample("parse_sequence_example", sequence, one(SEQUENCE), NONE, np.zeros(0, np.int64),
       reference=lambda *given: [
           np.int64(5), np.array([[0, 0], [1, 0], [1, 1]]), text(b"a", b"b", b"c"), np.array([2, 2]),
           np.array([[1, 2], [3, 4]], np.float32),
       ])  # fmt: skip

SEQUENCES = text(
    SEQUENCE, make_sequence_example({"n": 6}, {"t": []}), make_sequence_example({"n": 7}, {"t": [[5.0, 6.0]]})
)
sample("parse_sequence_example", sequence, SEQUENCES, text(b"a", b"b", b"c"), np.zeros(0, np.int64),
       reference=lambda *given: [
           np.array([5, 6, 7]),
           np.array([[0, 0, 0], [0, 1, 0], [0, 1, 1]]), text(b"a", b"b", b"c"), np.array([3, 2, 2]),
           np.array([[[1, 2], [3, 4]], [[0, 0], [0, 0]], [[5, 6], [0, 0]]], np.float32), np.array([2, 0, 1]),
       ])  # fmt: skip
sample("parse_sequence_example", sequence, text(), NONE, np.zeros(0, np.int64),
       reference=lambda *given: [
           np.zeros(0, np.int64), np.zeros((0, 3), np.int64), text(), np.zeros(3, np.int64),
           np.zeros((0, 0, 2), np.float32), np.zeros(0, np.int64),
       ])  # fmt: skip

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 5, 3), np.uint8)


def saved(kind, pixels, **options):
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


def opened(contents):
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(contents[()])))


PNG, JPEG, BMP, GIF = (one(saved(kind, PIXELS)) for kind in ("PNG", "JPEG", "BMP", "GIF"))
sample("decode_png", decode_image.decode_png, PNG, reference=opened)
sample("decode_png", lambda x: decode_image.decode_png(x, 1, uint16), one(saved("PNG", PIXELS[..., 0])),
       reference=lambda x: PIXELS[..., :1].astype(np.uint16) * 257)  # fmt: skip
sample("decode_jpeg", decode_image.decode_jpeg, JPEG, reference=opened)
sample("decode_and_crop_jpeg", decode_image.decode_and_crop_jpeg, JPEG, np.array([1, 0, 2, 3], np.int32),
       reference=lambda x, window: opened(x)[1:3, :3])  # fmt: skip
sample("decode_bmp", decode_image.decode_bmp, BMP, reference=opened)
sample("decode_gif", decode_image.decode_gif, GIF)
sample("decode_image", lambda x: decode_image.decode_any_image(x, 0, False), PNG, reference=opened)
sample("is_jpeg", decode_image.is_jpeg, text(JPEG[()], PNG[()], b""),
       reference=lambda x: np.array([True, False, False]))  # fmt: skip
sample("extract_jpeg_shape", lambda x: decode_image.extract_jpeg_shape(x, int64), JPEG,
       reference=lambda x: np.array([4, 5, 3]))  # fmt: skip
sample("encode_png", decode_image.encode_png, PIXELS)
sample("encode_jpeg", decode_image.encode_jpeg, PIXELS)
sample("encode_jpeg_of_quality", jpeg_quality.encode_jpeg_of_quality, PIXELS, np.int32(60))
sample("decode_webp", webp.decode_webp, one(saved("WEBP", PIXELS, lossless=True)), reference=lambda x: opened(x)[None])
