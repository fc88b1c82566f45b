"""`af.io.gfile`: files and folders under the names of TensorFlow's `io.gfile`. These functions block."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.files.gfile": (
        "GFile copy exists get_registered_schemes glob isdir join listdir makedirs mkdir remove rename rmtree stat walk"
    ),
})  # fmt: skip
