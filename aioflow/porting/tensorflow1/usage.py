"""Where a program uses names of TensorFlow's."""

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from aioflow.porting.tensorflow1.inference import Inference
from aioflow.porting.tensorflow1.kinds import TensorFlowName
from aioflow.porting.tensorflow1.names import DIFFERS, SAME, NameState, state_of

Chain: TypeAlias = ast.Name | ast.Attribute
RENAMED: Final = {
    "ConfigProto": "Config",
    "Event": "summary.Event",
    "InteractiveSession": "Session",
    "Summary": "summary.Summary",
    "contrib.framework.get_or_create_global_step": "train.get_or_create_global_step",
    "contrib.layers.xavier_initializer": "glorot_uniform_initializer",
    "contrib.layers.xavier_initializer_conv2d": "glorot_uniform_initializer",
    "contrib.rnn.static_bidirectional_rnn": "nn.static_bidirectional_rnn",
    "contrib.rnn.static_rnn": "nn.static_rnn",
}
"""Names that aioflow has at another place."""
_ITERATED: Final = "iterate outside the graph, by `async for` over the data set, or fill a queue by its feed_into"
MISSING_METHODS: Final = {
    "make_initializable_iterator": _ITERATED,
    "make_one_shot_iterator": _ITERATED,
}
"""Methods of TensorFlow's objects that aioflow's lack, and what to do instead."""
_CELLS: Final = "contrib.rnn."
_REPLACED: Final = {"app": "asyncio.run", "flags": "argparse"}
"""Modules of TensorFlow's that the port replaces by Python's."""


class Use(NamedTuple):
    """A place with a name of TensorFlow's.

    Attributes:
        node: the whole dotted name, such as `tf.train.Saver`.
        path: its path below `tf`.
        state: the state of the name that the path begins with.
    """

    node: Chain
    path: str
    state: NameState


def uses(inference: Inference) -> Iterator[Use]:
    """Yield the places in the order of the program."""
    nodes = (each for each in ast.walk(inference.script.tree) if isinstance(each, (ast.Name, ast.Attribute)))
    for node in sorted(nodes, key=lambda each: (each.lineno, each.col_offset)):
        kind = inference.kind(node)
        parent = inference.script.parents[node]
        is_whole = not (isinstance(parent, ast.Attribute) and isinstance(inference.kind(parent), TensorFlowName))
        if isinstance(kind, TensorFlowName) and kind.path and is_whole and isinstance(node.ctx, ast.Load):
            state = _state(kind.path)
            if state is not None:
                yield Use(node, kind.path, state)


def _state(path: str) -> NameState | None:
    moved = renamed(path)
    if moved is not None:
        return NameState(path, DIFFERS, f"becomes af.{moved}")
    module = path.partition(".")[0] if not path.startswith("app.flags") else "flags"
    if module in _REPLACED:
        return NameState(path, DIFFERS, f"becomes {_REPLACED[module]}")
    return state_of(path)


def renamed(path: str) -> str | None:
    """Return where aioflow has a name; None where it is at the same place, or missing."""
    if path in RENAMED:
        return RENAMED[path]
    cell = path.removeprefix(_CELLS)
    known = state_of(f"nn.rnn_cell.{cell}") if path.startswith(_CELLS) else None
    return f"nn.rnn_cell.{cell}" if known is not None and known.state in (SAME, DIFFERS) else None
