"""`af.random.experimental`: generators, seeds made of seeds, and random orders that follow from them."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow import random_index_shuffle as index_shuffle
from aioflow.library.random_generator import Algorithm as Algorithm
from aioflow.library.random_generator import Generator as Generator
from aioflow.library.random_generator import create_rng_state as create_rng_state
from aioflow.library.random_generator import get_global_generator as get_global_generator
from aioflow.library.random_generator import set_global_generator as set_global_generator
from aioflow.library.stateless_random import stateless_fold_in as stateless_fold_in
from aioflow.library.stateless_random import stateless_shuffle as stateless_shuffle
from aioflow.library.stateless_random import stateless_split as stateless_split

__all__ = ["Algorithm", "Generator", "create_rng_state", "get_global_generator", "index_shuffle",
    "set_global_generator", "stateless_fold_in", "stateless_shuffle", "stateless_split"]
