"""Which initial values of a model are weights, which are state, and which are constants."""

import enum
from collections.abc import Mapping
from typing import Final

from aioflow.onnx.model import GraphBody, Node
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import FLOAT, as_dtype


class Role(enum.Enum):
    """What an initial value is for."""

    WEIGHT = enum.auto()
    """A variable that optimizers change."""
    STATE = enum.auto()
    """A variable that they do not."""
    CONSTANT = enum.auto()


_STATE: Final = {"BatchNormalization": (3, 4)}
"""Inputs that are statistics of the data."""
_SETTINGS: Final = {
    "Clip": (1, 2), "DequantizeLinear": (1,), "Dropout": (1,), "OneHot": (2,), "Pad": (2,), "QLinearAdd": (1, 4, 6),
    "QLinearConv": (1, 4, 6), "QLinearMatMul": (1, 4, 6), "QuantizeLinear": (1,), "Resize": (1, 2), "Upsample": (1,),
}  # fmt: skip
"""Floating-point inputs that are settings of an operator, not weights."""


def roles(body: GraphBody) -> Mapping[str, Role]:
    """The role of each initial value. Floating-point ones are weights, unless they are scalars or settings."""
    found = {name: _role(array) for name, array in body.initializers.items()}
    _mark(body, found)
    return found


def _role(array: AnyArray) -> Role:
    return Role.WEIGHT if array.ndim and as_dtype(array.dtype) in FLOAT else Role.CONSTANT


def _mark(body: GraphBody, found: dict[str, Role]) -> None:
    for node in body.nodes:
        for name in _at(node, _STATE):
            if found.get(name) is Role.WEIGHT:
                found[name] = Role.STATE
        found.update((name, Role.CONSTANT) for name in _at(node, _SETTINGS) if name in found)
        for inner in node.bodies():
            _mark(inner, found)


def _at(node: Node, places: Mapping[str, tuple[int, ...]]) -> list[str]:
    return [node.inputs[place] for place in places.get(node.type, ()) if place < len(node.inputs)]
