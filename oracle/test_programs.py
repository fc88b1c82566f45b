"""The classic programs that `aioflow port` changes are programs of TensorFlow: they run there, and learn."""

import pytest

from tests.porting.test_programs import ALONE, PROGRAMS, learned, start

WITHOUT_CELLS = {"char_rnn", "seq2seq_attention"}
"""Programs with cells of `tf.nn.rnn_cell`, which TensorFlow 2.21 makes with Keras 2 only."""


@pytest.mark.parametrize("name", [name for name in ALONE if name not in WITHOUT_CELLS])
def test_a_classic_program_learns_in_tensorflow(name: str) -> None:
    assert learned(start(PROGRAMS / f"{name}.py"))
