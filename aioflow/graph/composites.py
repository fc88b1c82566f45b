"""How sessions fetch and feed objects that stand for several tensors, such as SparseTensor."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final

from aioflow.graph.operation import Tensor
from aioflow.tensors.dtypes import Array


@dataclasses.dataclass(frozen=True, slots=True)
class Composite:
    """How a session fetches and feeds the objects of one class.

    Attributes:
        tensors: returns the tensors of an object.
        join: returns the fetched value of the object, given the values of its tensors in that order.
        split: returns the value to feed to each tensor, given the value fed for the object.
    """

    tensors: Callable[[Any], Sequence[Tensor]]
    join: Callable[[Any, Sequence[Array]], Any]
    split: Callable[[Any, Any], Sequence[Array]]


COMPOSITES: Final[dict[type, Composite]] = {}
"""{class: its Composite}; holds for subclasses too."""


def composite_of(value: object) -> Composite | None:
    """Return the Composite of the class of `value`; None if there is none."""
    return next((COMPOSITES[kind] for kind in type(value).__mro__ if kind in COMPOSITES), None)
