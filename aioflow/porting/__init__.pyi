"""Aids for porting a model, after the white paper's lessons [P15 section 6].

Import weights that another program has saved, count the parameters, compare two systems tensor by tensor, and do so
first of all with learning turned off. `weights` is the face of an import: a name map gives the tensors of a file the
names of variables, `rules` and `torch_rules` convert layouts, `matching` makes the report, before anything is changed.
This folder uses sessions as any user does. `tensorflow1` changes programs of TensorFlow 1: `aioflow port`.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.porting.matching import Match as Match
from aioflow.porting.matching import Misfit as Misfit
from aioflow.porting.matching import WeightReport as WeightReport
from aioflow.porting.outputs import compare_outputs as compare_outputs
from aioflow.porting.rules import Rule as Rule
from aioflow.porting.torch_rules import TORCH as TORCH
from aioflow.porting.torch_rules import dense_after_flatten as dense_after_flatten
from aioflow.porting.weights import import_weights as import_weights
from aioflow.porting.weights import match_weights as match_weights

__all__ = ["Match", "Misfit", "Rule", "TORCH", "WeightReport", "compare_outputs", "dense_after_flatten",
    "import_weights", "match_weights"]
