"""Positions in a dataset as plain data, which JSON can hold.

The position of a stage is `[elements given, its own part]`; the positions of the stages before it are in its own part.
A position holds numbers only, never elements. The state of an iterator is the position of its last stage, with the
numbers that decide the orders of shuffles and a text that tells one dataset from another.
"""

from typing import Any, Final, NamedTuple

from aioflow.tensors.recursion import short_repr

Position = Any
"""Nested lists of numbers and None."""
_LARGEST: Final = 1 << 63


class State(NamedTuple):
    """The state of an iterator: the dataset as text, its entropy and epoch, and the position of the last stage."""

    dataset: str
    entropy: int
    epoch: int
    position: Position

    def as_plain(self) -> dict[str, Any]:
        """Return the form for users and files."""
        return self._asdict()


def as_state(plain: Any, dataset: str) -> State:
    """Return the state that `as_plain` wrote. ValueError if it is no state, or one of another dataset."""
    if not isinstance(plain, dict) or plain.keys() != set(State._fields):
        raise ValueError(f"a state is what iterator.state() returns, not {short_repr(plain)}")
    if plain["dataset"] != dataset:
        raise ValueError(f"the state is of the dataset {short_repr(plain['dataset'])}, this one is {dataset!r}")
    return State(dataset, as_number(plain["entropy"]), as_number(plain["epoch"]), plain["position"])


def as_number(entry: Any) -> int:
    """Return a number of a position. ValueError if it is none."""
    if type(entry) is not int or not 0 <= entry < _LARGEST:
        raise ValueError(f"a position has numbers from 0 on, not {short_repr(entry)}")
    return entry


def entries(position: Position, count: int) -> list[Any]:
    """Return the entries of a list of that length. ValueError if it is none."""
    if not isinstance(position, list) or len(position) != count:
        raise ValueError(f"a position has {count} entries here, not {short_repr(position)}")
    return position
