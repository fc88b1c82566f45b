"""`af.nn.rnn_cell`: the cells of recurrent nets, and their wrappers."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.library.rnn_cell_base import RNNCell as RNNCell
from aioflow.library.rnn_cell_kinds import BasicLSTMCell as BasicLSTMCell
from aioflow.library.rnn_cell_kinds import BasicRNNCell as BasicRNNCell
from aioflow.library.rnn_cell_kinds import GRUCell as GRUCell
from aioflow.library.rnn_cell_kinds import LSTMCell as LSTMCell
from aioflow.library.rnn_cell_kinds import LSTMStateTuple as LSTMStateTuple
from aioflow.library.rnn_cell_wrappers import DeviceWrapper as DeviceWrapper
from aioflow.library.rnn_cell_wrappers import DropoutWrapper as DropoutWrapper
from aioflow.library.rnn_cell_wrappers import MultiRNNCell as MultiRNNCell
from aioflow.library.rnn_cell_wrappers import ResidualWrapper as ResidualWrapper

__all__ = ["BasicLSTMCell", "BasicRNNCell", "DeviceWrapper", "DropoutWrapper", "GRUCell", "LSTMCell", "LSTMStateTuple",
    "MultiRNNCell", "RNNCell", "ResidualWrapper"]
