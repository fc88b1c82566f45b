"""`af.io.gfile`: files and folders under the names of TensorFlow's `io.gfile`. These functions block."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.files.gfile import GFile as GFile
from aioflow.files.gfile import copy as copy
from aioflow.files.gfile import exists as exists
from aioflow.files.gfile import get_registered_schemes as get_registered_schemes
from aioflow.files.gfile import glob as glob
from aioflow.files.gfile import isdir as isdir
from aioflow.files.gfile import join as join
from aioflow.files.gfile import listdir as listdir
from aioflow.files.gfile import makedirs as makedirs
from aioflow.files.gfile import mkdir as mkdir
from aioflow.files.gfile import remove as remove
from aioflow.files.gfile import rename as rename
from aioflow.files.gfile import rmtree as rmtree
from aioflow.files.gfile import stat as stat
from aioflow.files.gfile import walk as walk

__all__ = ["GFile", "copy", "exists", "get_registered_schemes", "glob", "isdir", "join", "listdir", "makedirs", "mkdir",
    "remove", "rename", "rmtree", "stat", "walk"]
