"""The table: which op is compared how, and which is not and why."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Final

from oracle.draw import Call, Draw

NUMPY: Final = "NumPy's behaviour is the tie-breaker: "


@dataclasses.dataclass(frozen=True)
class Difference:
    """Where the two differ on purpose.

    Attributes:
        reason: why aioflow is right.
        when: (*arrays, **attributes) -> whether the call is exempt, or which elements of its results are.
    """

    reason: str
    when: Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the table.

    Attributes:
        path: what is called, `nn.relu` for `af.nn.relu`, and a label after a space.
        inputs: what it is called with.
        call: (aioflow or TensorFlow's v1 module, *tensors, **attributes) -> results.
        theirs: the same for TensorFlow alone, where it is called otherwise.
        ops: the ops that the calls are made of, or their gradients: those that the line answers for.
        rtol: the tolerance, in units of the dtype's precision, relative to the largest finite element.
        differences: where the two differ on purpose.
        gradient: whether gradients are compared.
    """

    path: str
    inputs: Callable[[Draw], Call]
    call: Callable[..., Any]
    theirs: Callable[..., Any]
    ops: tuple[str, ...]
    rtol: float
    differences: tuple[Difference, ...]
    gradient: bool | str


LINES: Final[list[Line]] = []
EXCUSED: Final[dict[str, str]] = {}
"""Patterns of ops that are not compared, and why."""


def compare(
    path: str,
    inputs: Callable[[Draw], Call],
    call: Callable[..., Any] | None = None,
    *,
    theirs: Callable[..., Any] | str | None = None,
    ops: tuple[str, ...] | str | None = None,
    rtol: float = 16,
    differs: tuple[Difference, ...] = (),
    gradient: bool | str = True,
) -> None:
    """Add a line; see `Line`. `gradient` may be the reason why there is none to compare."""
    name = path.partition(" ")[0]
    run = call or functools.partial(_called, name)
    other = functools.partial(_called, theirs) if isinstance(theirs, str) else theirs
    made_of = (name.rpartition(".")[2],) if ops is None else (ops,) if isinstance(ops, str) else ops
    LINES.append(Line(path, inputs, run, other or run, made_of, rtol, differs, gradient))


def differs(reason: str, when: Callable[..., Any] = lambda *arrays, **attrs: True) -> tuple[Difference, ...]:
    """One difference; several are added with +."""
    return (Difference(reason, when),)


def excuse(reason: str, *ops: str) -> None:
    """Say why these ops (patterns) are not compared."""
    EXCUSED.update(dict.fromkeys(ops, reason))


def _called(path: str, library: Any, *tensors: Any, **attrs: Any) -> Any:
    return functools.reduce(getattr, path.split("."), library)(*tensors, **attrs)


def open_sizes(library: Any, x: Any) -> Any:
    """`x`, of whose shape only the rank is known when the graph is built."""
    return library.placeholder_with_default(x, [None] * x.shape.ndims)
