"""The version of aioflow, which the build of the package reads, too, and those of graphs as plain data."""

import platform
from typing import Final

from aioflow.lazy import Face

__version__ = "0.1.0"
VERSION = __version__
"""The version, under TensorFlow's name."""
GIT_VERSION: Final = f"v{__version__}"
COMPILER_VERSION: Final = platform.python_compiler()
"""The compiler of Python: aioflow itself is not compiled."""
GRAPH_DEF_VERSION: Final = 1
"""The version of the format that `GraphDef` writes."""
GRAPH_DEF_VERSION_MIN_CONSUMER: Final = 1
"""The first version that can read it."""
GRAPH_DEF_VERSION_MIN_PRODUCER: Final = 1
"""The first version that can be read."""
_face = Face(__name__, {
    __name__: (
        "COMPILER_VERSION GIT_VERSION GRAPH_DEF_VERSION GRAPH_DEF_VERSION_MIN_CONSUMER GRAPH_DEF_VERSION_MIN_PRODUCER "
        "VERSION"
    )
})  # fmt: skip
