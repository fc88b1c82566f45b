"""Rules that say from which tensors of a file a variable gets its value, and how they are converted."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow.checkpoint.name_map import as_path
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.recursion import safe_repr

Convert = Callable[..., Any]
"""A function of the arrays of the tensors, which returns the value."""


class Rule:
    """The value of some variables.

        Rule("dense/kernel", "fc.weight", np.transpose)
        Rule("lstm/bias", ["rnn.bias_ih_l0", "rnn.bias_hh_l0"], np.add)

    A rule holds for the variables whose name ends with `variable`, if the file has all of its tensors: their names
    have the same beginning, followed by `tensors`. So the first rule above holds for `a/dense/kernel`, too, with the
    tensor `a.fc.weight`. Parts of names are separated by `/` or `.`, which is the same.

    Attributes:
        variable: the end of the variable's name; None if the tensors belong to no variable, and are left out.
        tensors: the ends of the names of the tensors, after the name map.
        convert: makes the value of the arrays of the tensors; None for one array as it is.
        reshape: whether the value gets the shape of the variable, if it has as many elements.

    Examples:
        >>> rule = af.porting.Rule("dense/kernel", "fc.weight", np.transpose)
        >>> rule.sources("a/dense/kernel", {"a.fc.weight": np.zeros((2, 3))})
    """

    def __init__(
        self,
        variable: str | None,
        tensors: str | Sequence[str],
        convert: Convert | None = None,
        *,
        reshape: bool = False,
    ) -> None:
        """TypeError or ValueError for arguments of another kind."""
        if convert is not None and not callable(convert):
            raise TypeError(f"convert must be a function of arrays, not {safe_repr(convert)}")
        self.variable: Final = None if variable is None else as_path(variable)
        self.tensors: Final = tuple(map(as_path, [tensors] if isinstance(tensors, str) else tensors))
        self.convert: Final = convert
        self.reshape: Final = reshape
        if not self.tensors or (convert is None and variable is not None and len(self.tensors) > 1):
            raise ValueError(f"a rule without convert has one tensor, not {list(self.tensors)}")

    def sources(self, variable: str, tensors: Mapping[str, Any]) -> list[str] | None:
        """Return the names of its tensors for a variable; None if it does not hold for that."""
        beginning = None if self.variable is None else beginning_of(variable, self.variable)
        if beginning is None:
            return None
        names = [beginning + end for end in self.tensors]
        return names if all(name in tensors for name in names) else None

    def leaves_out(self, tensor: str) -> bool:
        """Return whether it leaves a tensor out."""
        return self.variable is None and any(beginning_of(tensor, end) is not None for end in self.tensors)

    def value(self, arrays: Sequence[AnyArray], shape: Sequence[int] | None) -> AnyArray:
        """Return the value for arrays, and the shape of the variable if that is known."""
        value = np.asarray(arrays[0] if self.convert is None else self.convert(*arrays))
        fits = self.reshape and shape is not None and value.size == np.prod(shape, dtype=int)
        return value.reshape(shape) if fits else value

    def __str__(self) -> str:
        """What it does to the tensors; empty if it takes one as it is."""
        if self.convert is None:
            return ""
        return getattr(self.convert, "__name__", None) or str(self.convert)


AS_IT_IS: Final = Rule("", "")
"""The variable has the name of a tensor, and its value."""


def beginning_of(name: str, end: str) -> str | None:
    """Return what is before the last parts of a name; None if it ends with others."""
    if name == end or end == "":
        return name[: len(name) - len(end)]
    return name[: -len(end)] if name.endswith(f"/{end}") else None
