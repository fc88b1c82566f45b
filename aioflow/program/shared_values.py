"""The values that the pieces of a long block share: items of a dict, which each piece gets.

    w = dict(enumerate(given))                   the inputs of the region
    await k1(ctx, w)                             statements 1 to 64, with lines `w[7] = k3(w[0])` and `del w[0]`
    await k2(ctx, w)                             statements 65 to 128
    return (*c2(w), )                            c2 = operator.itemgetter(7, 9, ...)

CPython's compiler takes 2 to 3 μs for each name in a list of arguments, results or names to delete, and the loop stands
still meanwhile. So a list with many shared values is written as one constant.
"""

import itertools
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from aioflow.plan.passes.flow import Value

NAME: Final = "w"
"""The name of the dict."""
MANY: Final = 8
"""The fewest shared values that are written as one constant."""
_ITEM: Final = re.compile(rf"{NAME}\[(\d+)\]")


class SharedValues:
    """The names of the shared values of a region and its pieces.

    Attributes:
        texts: the names of values, also of those that are not made yet.
        reusable: those of them whose arrays their last readers may write into.
    """

    def __init__(self) -> None:
        self.texts: Final[dict[Value, str]] = {}
        self._serial: Final = itertools.count()
        self.reusable: Final[set[Value]] = set()

    def add(self, values: Iterable[Value], reusable: Iterable[Value]) -> None:
        """Share these values, too."""
        self.reusable.update(reusable)
        for value in values:
            if value not in self.texts:
                self.texts[value] = self.fresh()

    def fresh(self) -> str:
        """A name that is not used yet."""
        return f"{NAME}[{next(self._serial)}]"


def is_shared(text: str) -> bool:
    """Whether this is the name of a shared value."""
    return text.startswith(f"{NAME}[")


def value_of(text: str, scope: Mapping[str, Any]) -> Any:
    """The value of that name in a scope; None if it has none there."""
    return scope.get(NAME, {}).get(_number(text)) if is_shared(text) else scope.get(text)


Constant = Callable[[str, Any], str]
"""(kind of the name, value) -> the name of a constant."""


def listed(texts: Sequence[str], constant: Constant) -> list[str]:
    """The names as items of a list, in their order; a run of many shared ones is one item."""
    found: list[str] = []
    for shared, run in itertools.groupby(texts, is_shared):
        names = list(run)
        if shared and len(names) >= MANY:
            found.append(f"*{constant('c', operator.itemgetter(*_numbers(names)))}({NAME})")
        else:
            found += names
    return found


def assignment(targets: Sequence[str], items: str, constant: Constant) -> str:
    """The statement that gives these names the items of a value; without names, the value."""
    if len(targets) >= MANY and all(map(is_shared, targets)):
        return f"{NAME}.update(zip({constant('c', _numbers(targets))}, {items}, strict=True))"
    return f"{', '.join(targets)}, = {items}" if targets else items


def deletions(texts: Iterable[str], constant: Constant) -> list[str]:
    """The statements that delete these names."""
    others, shared = _divided(texts)
    found = [f"del {', '.join(others)}"] if others else []
    return [*found, f"for s in {constant('c', _numbers(shared))}: del {NAME}[s]"] if shared else found


def unpacked(texts: Iterable[str], constant: Constant) -> list[str]:
    """The statements that take NumPy scalars out of arrays of rank 0."""
    others, shared = _divided(texts)
    found = [f"{text} = {text}[()]" for text in others]
    return [*found, f"for s in {constant('c', _numbers(shared))}: {NAME}[s] = {NAME}[s][()]"] if shared else found


def _divided(texts: Iterable[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The names without the shared ones, and these, if they are many."""
    names = list(dict.fromkeys(texts))
    shared = [text for text in names if is_shared(text)]
    return ([text for text in names if not is_shared(text)], shared) if len(shared) >= MANY else (names, ())


def _numbers(texts: Iterable[str]) -> tuple[int, ...]:
    return tuple(map(_number, texts))


def _number(text: str) -> int:
    found = _ITEM.fullmatch(text)
    assert found is not None
    return int(found[1])
