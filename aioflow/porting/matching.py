"""Which tensors of a file fit which variables: a report, made before anything is changed."""

import collections
import dataclasses
import difflib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from aioflow.checkpoint.name_map import NameMap, as_path, renamed
from aioflow.porting.rules import AS_IT_IS, Rule
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import DType, as_dtype, string

_LARGEST_RANK: Final = 6
"""Of arrays for which an order of axes is searched."""
_MOST_GUESSED: Final = 50
"""Names for which similar ones are searched: the search takes a time that grows with the square."""


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """A dtype and a shape, of which sizes may be open, or all."""

    dtype: DType
    shape: tuple[int | None, ...] | None

    @property
    def known(self) -> list[int] | None:
        """Its sizes; None if some of them are open."""
        sizes = [size for size in self.shape or () if size is not None]
        return None if self.shape is None or len(sizes) < len(self.shape) else sizes

    def fits(self, shape: Sequence[int]) -> bool:
        """Return whether a value of that shape is one of this form."""
        if self.shape is None:
            return True
        pairs = zip(self.shape, shape, strict=False)
        return len(self.shape) == len(shape) and all(size in (None, other) for size, other in pairs)

    def __str__(self) -> str:
        sizes = "of any shape" if self.shape is None else str(["?" if n is None else n for n in self.shape])
        return f"{self.dtype.name}{sizes}".replace("'", "")


@dataclasses.dataclass(frozen=True, slots=True)
class Match:
    """A variable and the tensors that it gets its value from.

    Attributes:
        variable: its name.
        tensors: their names in the file.
        rule: converts them.
        form: the dtype and shape of the variable.

    Examples:
        >>> w = af.get_variable("w", [2])
        >>> report = await af.porting.match_weights({"w": np.ones(2, np.float32)})
        >>> print(report.matched[0])
        w float32[2] = w
    """

    variable: str
    tensors: tuple[str, ...]
    rule: Rule
    form: Form

    def __str__(self) -> str:
        how = f" ({self.rule})" if str(self.rule) else ""
        return f"{self.variable} {self.form} = {' and '.join(self.tensors)}{how}"


@dataclasses.dataclass(frozen=True, slots=True)
class Misfit:
    """A variable that gets no value.

    Attributes:
        variable: its name.
        reason: why it gets none, and what could help.

    Examples:
        >>> w = af.get_variable("w", [2])
        >>> report = await af.porting.match_weights({"w": np.ones(3, np.float32)})
        >>> report.different[0].variable
        'w'
    """

    variable: str
    reason: str

    def __str__(self) -> str:
        return f"{self.variable} {self.reason}"


@dataclasses.dataclass(frozen=True, slots=True)
class WeightReport:
    """Which tensors of a file fit which variables. `str` gives it as text.

    Attributes:
        matched: the variables that get a value.
        different: those whose tensors have another dtype or shape.
        missing: those without tensors.
        unexpected: the names of the tensors in the file that no variable uses.

    Examples:
        >>> w = af.get_variable("w", [2])
        >>> report = await af.porting.match_weights({"w": np.ones(2, np.float32), "b": np.ones(1, np.float32)})
        >>> len(report.matched), report.missing, report.unexpected
        (1, (), ('b',))
    """

    matched: tuple[Match, ...]
    different: tuple[Misfit, ...]
    missing: tuple[Misfit, ...]
    unexpected: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every variable gets a value, and every tensor is used."""
        return not (self.different or self.missing or self.unexpected)

    def __str__(self) -> str:
        parts = {
            "matched": self.matched, "different": self.different, "missing": self.missing,
            "unexpected": self.unexpected,
        }  # fmt: skip
        counts = ", ".join(f"{len(rows)} {name}" for name, rows in parts.items())
        return "\n".join([counts, *[f"{name}: {row}" for name, rows in parts.items() for row in rows]])


class Matching:
    """The search for the tensors of each variable.

    Args:
        variables: the dtype and shape of each variable, by its name.
        tensors: those of each tensor of the file, by its name.
        name_map: see `aioflow.checkpoint.name_map.NameMap`.
        rules: the rules, of which the first one that holds is used; then a variable gets the tensor of its name.
        cast: whether a tensor may have another dtype than its variable.
    """

    def __init__(
        self,
        variables: Mapping[str, Form],
        tensors: Mapping[str, Form],
        name_map: NameMap | None,
        rules: Iterable[Rule],
        cast: bool,
    ) -> None:
        self._variables: Final = variables
        self._tensors: Final = tensors
        self._names: Final = renamed(tensors, name_map)
        self._rules: Final = (*rules, AS_IT_IS)
        self._cast: Final = cast

    def report(self) -> WeightReport:
        """Return the report."""
        found = {variable: self._match(variable) for variable in self._variables}
        matches = [match for match in found.values() if match is not None]
        problems = {match.variable: self._problem(match) for match in matches}
        used = {tensor for match in matches for tensor in match.tensors}
        unused = [
            name
            for path, name in self._names.items()
            if name not in used and not any(rule.leaves_out(path) for rule in self._rules)
        ]
        absent = [variable for variable, match in found.items() if match is None]
        return WeightReport(
            tuple([match for match in matches if not problems[match.variable]]),
            tuple([Misfit(variable, reason) for variable, reason in problems.items() if reason]),
            tuple(self._missing(absent, unused)),
            tuple(unused),
        )

    def _match(self, variable: str) -> Match | None:
        for rule in self._rules:
            sources = rule.sources(as_path(variable), self._names)
            if sources is not None:
                names = tuple([self._names[source] for source in sources])
                return Match(variable, names, rule, self._variables[variable])
        return None

    def _problem(self, match: Match) -> str:
        """Return why the value does not fit the variable; empty if it does."""
        forms = [self._tensors[name] for name in match.tensors]
        origin = " and ".join(f"{name} {form}" for name, form in zip(match.tensors, forms, strict=True))
        try:
            value = match.rule.value(list(map(_without_memory, forms)), match.form.known)
        except Exception as error:
            return f"{match.form} cannot be made of {origin}: {type(error).__name__}: {error}"
        if not match.form.fits(value.shape):
            made = f", which gives {list(value.shape)}" if str(match.rule) else ""
            return f"{match.form} does not fit {origin}{made}{proposed_axes(value.shape, match.form.shape)}"
        if value.dtype != match.form.dtype.np and not self._cast:
            return f"{match.form} does not fit {origin}; cast=True converts the numbers"
        if string in (match.form.dtype, *[form.dtype for form in forms]) and value.dtype != match.form.dtype.np:
            return f"{match.form} does not fit {origin}: text is no number"
        return ""

    def _missing(self, absent: Sequence[str], unused: Sequence[str]) -> Iterable[Misfit]:
        """Yield the variables without tensors, each with the unused tensors that are most like it."""
        by_sizes = collections.defaultdict(list)
        for name in unused:
            by_sizes[_sorted(self._tensors[name])].append(name)
        for number, variable in enumerate(absent):
            form = self._variables[variable]
            fitting = by_sizes[_sorted(form)]
            guess = (fitting, 2, 0.0) if fitting else (unused, 2, 0.5)
            close = difflib.get_close_matches(variable, *guess) if number < _MOST_GUESSED else []
            similar = " or ".join(f"{name} {self._tensors[name]}" for name in close)
            yield Misfit(variable, f"{form} has no tensor" + (f"; similar: {similar}" if similar else ""))


def _sorted(form: Form) -> tuple[int, ...]:
    """Return the sizes by which forms that differ in the order of axes alone are the same."""
    return tuple(sorted([size or 0 for size in form.shape or ()]))


def _without_memory(form: Form) -> AnyArray:
    """Return an array of that form, all of whose elements are one."""
    sizes = [size or 0 for size in form.shape or ()]
    return np.broadcast_to(np.zeros((), form.dtype.np), sizes)


def proposed_axes(found: Sequence[int], wanted: Sequence[int | None] | None) -> str:
    """Return a text that says which order of axes would fit; empty if none would."""
    if wanted is None or len(found) != len(wanted) or len(found) > _LARGEST_RANK:
        return ""
    for axes in itertools.permutations(range(len(found))):
        if all(size in (None, found[axis]) for size, axis in zip(wanted, axes, strict=True)):
            return f"; transposed by {axes} it would"
    return ""


def form_of(array: AnyArray) -> Form:
    """Return the dtype and shape of an array."""
    return Form(as_dtype(array.dtype), array.shape)
