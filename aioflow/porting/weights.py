"""Weights that another program has saved, as the values of variables."""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from aioflow import errors
from aioflow.checkpoint import import_safetensors
from aioflow.checkpoint.name_map import NameMap
from aioflow.files.byte_count import Progress, current_count
from aioflow.files.filesystem import Path
from aioflow.library.state import global_variables
from aioflow.library.variables import Variable
from aioflow.porting.matching import Form, Match, Matching, WeightReport, form_of
from aioflow.porting.rules import Rule
from aioflow.session import Session
from aioflow.tensors.as_array import AnyArray, as_array
from aioflow.tensors.recursion import safe_repr
from aioflow.train.byte_progress import shown

Weights = Path | Mapping[str, Any]
"""A safetensors file, a folder of them with an index, or arrays by name."""
Variables = Iterable[Variable] | Mapping[str, Variable]
"""Variables, or other names for them."""
_Read = Callable[[str], AnyArray]


async def match_weights(
    weights: Weights,
    variables: Variables | None = None,
    *,
    name_map: NameMap | None = None,
    rules: Iterable[Rule] = (),
    cast: bool = False,
) -> WeightReport:
    """Return which tensors of a file fit which variables. Reads no values, and changes nothing.

    Args:
        weights: a safetensors file, a folder of them with an index in Hugging Face's form, or a mapping of arrays, such
            as a state dict or the content of an npz file.
        variables: the variables, or a dict of variables by other names; all of the default graph by default.
        name_map: changes the names of the tensors before they are compared with those of variables. A dict of the names
            of tensors or modules, a function of a name, or pairs of a regular expression and its replacement, used one
            after the other. None in the place of a name leaves tensors out.
        rules: rules such as `af.porting.TORCH` for other layouts; the first one that holds for a variable is used.
            A variable for which none holds gets the tensor of its own name.
        cast: whether a tensor may have another dtype than its variable.

    Raises:
        TypeError, ValueError: an argument is wrong, such as a name map that gives two tensors the same name.
        NotFoundError, DataLossError: there is no such file, or it is damaged.

    Examples:
        >>> w = af.get_variable("dense/kernel", [2, 1])
        >>> report = await af.porting.match_weights({"fc.weight": np.ones((1, 2), np.float32)})
        >>> report.unexpected
        ('fc.weight',)
    """
    found = by_name(global_variables() if variables is None else variables)
    tensors, _ = await asyncio.to_thread(_opened, weights)
    return _report(found, tensors, name_map, rules, cast)


async def import_weights(
    session: Session,
    weights: Weights,
    variables: Variables | None = None,
    *,
    name_map: NameMap | None = None,
    rules: Iterable[Rule] = (),
    cast: bool = False,
    allow_missing: bool = False,
    allow_unexpected: bool = False,
    progress: Progress | None = None,
) -> WeightReport:
    """Give variables the values of tensors, all in one step, or change nothing.

    The process of the session reads the files, on a thread. Other arguments are those of `match_weights`.

    Args:
        session: the session of the variables.
        weights: the file, the folder or the arrays.
        variables: the variables; all of the session's graph by default.
        name_map: changes the names of the tensors.
        rules: rules for other layouts.
        cast: whether values of other dtypes are converted.
        allow_missing: whether variables without tensors keep their values.
        allow_unexpected: whether the file may hold other tensors.
        progress: called with the bytes of the tensors that are read, and of all, such as
            `af.train.Progress(unit="byte")`.

    Returns:
        The report.

    Raises:
        InvalidArgumentError: the tensors do not fit the variables. The text is the report.

    Examples:
        >>> w = af.get_variable("dense/kernel", [2, 1])
        >>> report = await af.porting.import_weights(session, {"dense/kernel": np.ones((2, 1), np.float32)})
        >>> await session.run(w)
        array([[1.],
               [1.]], dtype=float32)
    """
    if not isinstance(session, Session):
        raise TypeError(f"import_weights needs an af.Session, not {safe_repr(session)}")
    with session.graph.as_default():
        found = by_name(global_variables() if variables is None else variables)
    _check_graph(session, found)
    tensors, read = await asyncio.to_thread(_opened, weights)
    report = _report(found, tensors, name_map, rules, cast)
    if report.different or (report.missing and not allow_missing) or (report.unexpected and not allow_unexpected):
        raise errors.InvalidArgumentError(f"the weights do not fit the variables; none was changed: {report}")
    with shown(progress):
        values = await asyncio.to_thread(_values, report.matched, tensors, read)
    initializers = [found[match.variable].initializer for match in report.matched]
    feeds = {made.inputs[1]: value for made, value in zip(initializers, values, strict=True)}
    await session.run(initializers, feeds)
    return report


def by_name(variables: Any) -> dict[str, Variable]:
    """Return variables by their names. TypeError or ValueError if there are none, or anything else is among them."""
    pairs = list(variables.items() if isinstance(variables, Mapping) else ((_name(each), each) for each in variables))
    if strange := [value for _, value in pairs if not isinstance(value, Variable)]:
        raise TypeError(f"variables are af.Variable, not {safe_repr(strange[0])}")
    if not pairs:
        raise ValueError("there are no variables: build the model first, or pass its variables")
    return dict(pairs)


def _name(variable: Any) -> str:
    return str(variable.op.name) if isinstance(variable, Variable) else ""


def _check_graph(session: Session, variables: Mapping[str, Variable]) -> None:
    """Raise ValueError if variables belong to another graph, or two have one initial value."""
    origins: dict[Any, str] = {}
    for name, variable in variables.items():
        if variable.graph is not session.graph:
            raise ValueError(f"variable {name!r} belongs to another graph than that of the session")
        other = origins.setdefault(variable.initializer.inputs[1], name)
        if other != name:
            raise ValueError(f"{other!r} and {name!r} have one initial value; import them in two calls")


def _opened(weights: Weights) -> tuple[dict[str, Form], _Read]:
    """Return the dtype and shape of each tensor, and a function that reads one. Blocks."""
    if isinstance(weights, Mapping):
        arrays = {name: _array(name, weights[name]) for name in weights}
        return {name: form_of(array) for name, array in arrays.items()}, arrays.__getitem__
    checkpoint = import_safetensors(weights)
    forms = {name: Form(stored.dtype, tuple(stored.shape)) for name, stored in checkpoint.tensors.items()}
    return forms, checkpoint.read


def _array(name: Any, value: Any) -> AnyArray:
    if not isinstance(name, str):
        raise TypeError(f"weights have names, not {safe_repr(name)}")
    try:
        return as_array(np.asarray(value))
    except (TypeError, ValueError) as error:
        raise TypeError(f"weights: {name!r} is no array: {error}") from None


def _report(
    variables: Mapping[str, Variable],
    tensors: Mapping[str, Form],
    name_map: NameMap | None,
    rules: Iterable[Rule],
    cast: bool,
) -> WeightReport:
    wanted = {name: Form(each.dtype, _sizes(each)) for name, each in variables.items()}
    return Matching(wanted, tensors, name_map, _checked(rules), cast).report()


def _checked(rules: Any) -> list[Rule]:
    found = [rules] if isinstance(rules, Rule) else list(rules)
    if strange := [rule for rule in found if not isinstance(rule, Rule)]:
        raise TypeError(f"rules are af.porting.Rule, not {safe_repr(strange[0])}")
    return found


def _sizes(variable: Variable) -> tuple[int | None, ...] | None:
    return None if variable.shape.rank is None else tuple(variable.shape.as_list())


def _values(matches: Sequence[Match], tensors: Mapping[str, Form], read: _Read) -> list[AnyArray]:
    """Return the value of each matched variable. Blocks."""
    sizes = [
        sum(tensors[name].dtype.size * math.prod(tensors[name].known or ()) for name in each.tensors)
        for each in matches
    ]
    values, count = [], current_count()
    if count is not None:
        count.expect(sum(sizes))
    for match, size in zip(matches, sizes, strict=True):
        values.append(_value(match, read))
        if count is not None:
            count.add(size)
    return values


def _value(match: Match, read: _Read) -> AnyArray:
    arrays = [read(name) for name in match.tensors]
    value = match.rule.value(arrays, match.form.known)
    return np.ascontiguousarray(value.astype(match.form.dtype.np, copy=False)).reshape(value.shape)
