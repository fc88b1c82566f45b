"""The version of aioflow, which the build of the package reads, too."""

from aioflow.lazy import Face

__version__ = "0.1.0"
VERSION = __version__
"""The version, under TensorFlow's name."""
_face = Face(__name__, {__name__: "VERSION"})
