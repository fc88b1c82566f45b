"""Which variables of a loop an operation may change in place, as the cache of keys and values of a generated text.

An op that updates a few elements of a tensor, such as `tensor_scatter_update`, gives a new tensor. In a loop whose
variable is updated so, a copy of the whole variable in each iteration would take longer than the update. The array of a
variable may be changed in place if nothing but the variable refers to it:

- The new value is an array that the iteration has made, or the old array changed in place, and is the new value of no
  other variable.
- No view of the new value outlives the iteration, and none of the old value exists.
- The array of the first value may belong to others. The first iteration gives a new one.
"""

from collections.abc import Iterator, Sequence

from aioflow.plan.passes.flow import Value
from aioflow.plan.passes.liveness import is_surely_alike
from aioflow.program.blocks import Code, Statement, may_be_overwritten
from aioflow.program.fuse import Bound, Chain


def changed_in_place(body: Code, first: int, variables: int) -> list[int]:
    """The numbers of the variables of a loop that an operation of its body changes in place.

    Args:
        body: the code of an iteration. Its outputs are the new values of variables, and then values that are kept.
        first: the place of the first variable among the arguments.
        variables: the number of variables.
    """
    return [n for n in range(variables) if _is_changed(body, body.arguments.get(first + n), body.outputs[n])]


def _is_changed(body: Code, old: Value | None, new: Value) -> bool:
    readers = [at for at, each in enumerate(body.statements) if old in each.inputs]
    if old is None or not readers or not _updates(body.statements[readers[-1]], old):
        return False
    alone = body.outputs.count(new) == 1 and old not in body.outputs
    unseen = all(body.statements[at].fresh for at in readers)
    return alone and unseen and _is_made_inside(body.statements, new) and _is_dropped(body, new)


def _updates(statement: Statement, old: Value) -> bool:
    """Whether the statement is an update of `old` that can be made in place."""
    if not isinstance(statement, Bound) or not statement.out or not statement.node.definition.updates:
        return False
    alone = [place for place, value in enumerate(statement.inputs) if value == old] == [0]
    return alone and is_surely_alike(old.spec, statement.results[0].spec)


def _is_made_inside(statements: Sequence[Statement], new: Value) -> bool:
    return any(new in each.results and may_be_overwritten(each) for each in statements)


def _is_dropped(body: Code, new: Value) -> bool:
    """Whether all views of the value end with the iteration."""
    views = {new}
    for statement in _readers(body.statements, views):
        if not isinstance(statement, (Bound, Chain)) or _may_keep(statement):
            return False
        views.update(statement.results)
    return views.isdisjoint(set(body.outputs) - {new})


def _readers(statements: Sequence[Statement], views: set[Value]) -> Iterator[Statement]:
    """The statements that may hand on or keep a reference to one of the views; more of these may come meanwhile."""
    for statement in statements:
        if not statement.fresh and not views.isdisjoint(statement.inputs):
            yield statement


def _may_keep(statement: Bound | Chain) -> bool:
    """Whether it may keep a reference to an input after it has run, as a queue does."""
    return any(node.definition.stateful or node.definition.waits for node in statement.nodes)
