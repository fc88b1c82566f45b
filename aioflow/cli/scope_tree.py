"""The message of a graph as a tree of name scopes in text, and in the language of Graphviz."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Final

from aioflow.cli.quantities import number
from aioflow.dashboard.messages import Graph, GraphNode

_TYPES: Final = 4
"""Types of operations that a scope names: the most frequent."""
_OPERATIONS: Final = 12
"""Operations of a scope that are listed one by one, at most."""
_BRANCH, _LAST, _RUN, _SPACE = "├─ ", "└─ ", "│  ", "   "


@dataclasses.dataclass(slots=True)
class Scope:
    """A name scope.

    Attributes:
        name: the last part of its name.
        scopes: the scopes in it, by the last parts of their names.
        operations: the operations directly in it.
        types: the number of operations of each type in it, at any depth.
        left_out: the operations beyond the most that a message has.
    """

    name: str
    scopes: "dict[str, Scope]" = dataclasses.field(default_factory=dict)
    operations: list[GraphNode] = dataclasses.field(default_factory=list)
    types: Counter[str] = dataclasses.field(default_factory=Counter)
    left_out: int = 0

    @property
    def count(self) -> int:
        """The operations in it, at any depth."""
        return self.types.total()


def scope_of(graph: Graph) -> Scope:
    """The whole graph as a scope without a name."""
    root = Scope("", left_out=graph.left_out)
    for node in graph.nodes:
        place = root
        place.types[node.op_type] += 1
        for part in node.name.split("/")[:-1]:
            place = place.scopes.setdefault(part, Scope(part))
            place.types[node.op_type] += 1
        place.operations.append(node)
    return root


# Text


def tree(root: Scope, depth: int) -> Iterator[str]:
    """The lines of a graph, with scopes open down to the depth."""
    more = f", {number(root.left_out)} more are not shown" if root.left_out else ""
    yield f"{number(root.count)} operations{more}: {_common(root)}" if root.count else "no operations"
    yield from _inside(root, depth, "")


def _inside(scope: Scope, depth: int, indent: str) -> Iterator[str]:
    entries: list[Scope | str] = [*scope.scopes.values(), *_operations(scope)]
    for place, entry in enumerate(entries):
        is_last = place == len(entries) - 1
        yield f"{indent}{_LAST if is_last else _BRANCH}{entry if isinstance(entry, str) else _title(entry)}"
        if isinstance(entry, Scope) and depth > 0:
            yield from _inside(entry, depth - 1, indent + (_SPACE if is_last else _RUN))


def _title(scope: Scope) -> str:
    return f"{scope.name}/  {number(scope.count)}: {_common(scope)}"


def _operations(scope: Scope) -> list[str]:
    """A line for each operation directly in the scope, and one for those that are too many."""
    shown = scope.operations if len(scope.operations) <= _OPERATIONS else scope.operations[: _OPERATIONS - 1]
    lines = [f"{node.name.rpartition('/')[2]}  {node.op_type}  {', '.join(node.outputs)}".rstrip() for node in shown]
    rest = Counter([node.op_type for node in scope.operations[len(shown) :]])
    return [*lines, f"{number(rest.total())} further operations: {_counts(rest)}"] if rest else lines


def _common(scope: Scope) -> str:
    return _counts(scope.types)


def _counts(types: Counter[str]) -> str:
    """The most frequent types with their numbers."""
    texts = [f"{number(count)} {name}" for name, count in types.most_common(_TYPES)]
    return ", ".join([*texts, "…"] if len(types) > _TYPES else texts)


# Graphviz


def dot(graph: Graph) -> Iterator[str]:
    """The lines of a directed graph, whose clusters are the name scopes."""
    numbers = {node.name: place for place, node in enumerate(graph.nodes)}
    yield "digraph {"
    yield "  node [shape=box, style=rounded];"
    yield from _cluster(scope_of(graph), numbers, "", "  ")
    for place, node in enumerate(graph.nodes):
        yield from [f"  n{source} -> n{place};" for source in node.inputs]
        yield from [f"  n{source} -> n{place} [style=dashed];" for source in node.controls]
    yield "}"


def _cluster(scope: Scope, numbers: dict[str, int], path: str, indent: str) -> Iterator[str]:
    for node in scope.operations:
        label = f"{node.name.rpartition('/')[2]}\n{node.op_type}"
        yield f"{indent}n{numbers[node.name]} [label={_quoted(label)}];"
    for name, inner in scope.scopes.items():
        yield f"{indent}subgraph {_quoted(f'cluster {path}{name}')} {{"
        yield f"{indent}  label={_quoted(name)};"
        yield from _cluster(inner, numbers, f"{path}{name}/", f"{indent}  ")
        yield f"{indent}}}"


def _quoted(text: str) -> str:
    """The text as a string of Graphviz."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
