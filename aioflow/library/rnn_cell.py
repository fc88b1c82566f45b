"""`af.nn.rnn_cell`: the cells of recurrent nets, and their wrappers."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.library.rnn_cell_base": "RNNCell",
    "aioflow.library.rnn_cell_kinds": "BasicLSTMCell BasicRNNCell GRUCell LSTMCell LSTMStateTuple",
    "aioflow.library.rnn_cell_wrappers": "DeviceWrapper DropoutWrapper MultiRNNCell ResidualWrapper",
})  # fmt: skip
