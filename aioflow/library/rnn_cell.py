"""`af.nn.rnn_cell`: the cells of recurrent nets, and what wraps them."""

from aioflow.library.rnn_cell_base import RNNCell
from aioflow.library.rnn_cell_kinds import BasicRNNCell, GRUCell
from aioflow.library.rnn_cell_lstm import BasicLSTMCell, LSTMCell, LSTMStateTuple
from aioflow.library.rnn_cell_wrappers import DeviceWrapper, DropoutWrapper, MultiRNNCell, ResidualWrapper

__all__ = [
    "BasicLSTMCell", "BasicRNNCell", "DeviceWrapper", "DropoutWrapper", "GRUCell", "LSTMCell", "LSTMStateTuple",
    "MultiRNNCell", "RNNCell", "ResidualWrapper",
]  # fmt: skip
