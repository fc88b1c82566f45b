"""`af.gfile`: files and folders under the names of TensorFlow's `gfile`. These functions block."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.files.gfile import GFile as FastGFile
from aioflow.files.gfile import GFile as GFile
from aioflow.files.gfile import GFile as Open
from aioflow.files.gfile import copy as Copy
from aioflow.files.gfile import exists as Exists
from aioflow.files.gfile import glob as Glob
from aioflow.files.gfile import isdir as IsDirectory
from aioflow.files.gfile import listdir as ListDirectory
from aioflow.files.gfile import makedirs as MakeDirs
from aioflow.files.gfile import mkdir as MkDir
from aioflow.files.gfile import remove as Remove
from aioflow.files.gfile import rename as Rename
from aioflow.files.gfile import rmtree as DeleteRecursively
from aioflow.files.gfile import stat as Stat
from aioflow.files.gfile import walk as Walk

__all__ = ["Copy", "DeleteRecursively", "Exists", "FastGFile", "GFile", "Glob", "IsDirectory", "ListDirectory",
    "MakeDirs", "MkDir", "Open", "Remove", "Rename", "Stat", "Walk"]
