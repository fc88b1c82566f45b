"""Values that users hold as one object and that the graph holds as several tensors: how they are fetched and fed."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final

from aioflow.graph.operation import Tensor
from aioflow.tensors.dtypes import Array


@dataclasses.dataclass(frozen=True, slots=True)
class Composite:
    """What a session needs of a class whose objects stand for several tensors.

    Attributes:
        tensors: the tensors that the object stands for.
        join: the value of the object, given theirs in that order: what fetching it gives.
        split: what each of the tensors is fed, given the value fed for the object.
    """

    tensors: Callable[[Any], Sequence[Tensor]]
    join: Callable[[Any, Sequence[Array]], Any]
    split: Callable[[Any, Any], Sequence[Array]]


COMPOSITES: Final[dict[type, Composite]] = {}
"""By class; subclasses too."""


def composite_of(value: object) -> Composite | None:
    """How `value` is fetched and fed, None if it stands for no more than one tensor."""
    return next((COMPOSITES[kind] for kind in type(value).__mro__ if kind in COMPOSITES), None)
