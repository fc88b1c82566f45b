"""A graph as a picture of the flow between its outer scopes, and as a tree of name scopes that open and close."""

from collections import Counter, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from aioflow.notebook.card import card, more, table
from aioflow.notebook.markup import Markup, element, joined
from aioflow.notebook.quantities import counted
from aioflow.notebook.scope_flow import flow

if TYPE_CHECKING:
    from aioflow.graph.graph import Graph
    from aioflow.graph.operation import Operation

_ROWS: Final = 400
"""Operations and scopes that are shown, at most."""
_EACH: Final = 40
"""Of these in one scope, at most."""
_DEEPEST: Final = 12
"""Scopes within each other; the rest of a name stays together."""
_SMALL: Final = 20
"""Operations of a graph that is shown open."""
_TYPES: Final = 4
_INPUTS: Final = 4


class _Scope:
    """A name scope: the scopes and the operations in it."""

    def __init__(self, label: str) -> None:
        self.label: Final = label
        self.scopes: Final[dict[str, _Scope]] = {}
        self.operations: Final[list[tuple[str, Operation]]] = []
        self.types: Final[Counter[str]] = Counter()

    def add(self, operation: "Operation") -> None:
        """Put an operation where its name says."""
        *path, label = operation.name.split("/", _DEEPEST)
        scope = self
        scope.types[operation.type] += 1
        for part in path:
            scope = scope.scopes.setdefault(part, _Scope(part))
            scope.types[operation.type] += 1
        scope.operations.append((label, operation))

    @property
    def shown(self) -> tuple[list["_Scope"], list[tuple[str, "Operation"]]]:
        """The scopes and operations for which there is room."""
        scopes = list(self.scopes.values())[:_EACH]
        return scopes, self.operations[: _EACH - len(scopes)]

    @property
    def left_out(self) -> int:
        """How many scopes and operations there is no room for."""
        scopes, operations = self.shown
        return len(self.scopes) + len(self.operations) - len(scopes) - len(operations)


def graph_html(graph: "Graph") -> str:
    """A graph in pictures. Of the tree the outer scopes come first where not all can be shown."""
    root = _Scope("")
    for operation in graph.get_operations():
        root.add(operation)
    count = root.types.total()
    note = f"{counted(count, 'operation')}: {_common(root)}" if count else "without operations"
    return card("Graph", _flow(graph, root), _content(root, _with_room(root), count <= _SMALL), note=note)


def _flow(graph: "Graph", root: _Scope) -> Markup | None:
    """The flow of values between the outer scopes and the operations beside them, of which constants are left out."""
    shown = [each for each in graph.get_operations() if each.inputs or each.type != "constant" or "/" in each.name]
    counts = dict.fromkeys(map(_outer, shown), 0)
    counts |= {name: scope.types.total() for name, scope in root.scopes.items()}
    edges = {(_outer(tensor.op), _outer(operation)) for operation in shown for tensor in operation.inputs}
    return flow(counts, [edge for edge in edges if edge[0] in counts])


def _outer(operation: "Operation") -> str:
    return operation.name.partition("/")[0]


def _with_room(root: _Scope) -> set[_Scope]:
    """The scopes that have their content shown: level by level, as long as there is room."""
    found, waiting, left = set(), deque([root]), _ROWS
    while waiting and left > 0:
        scope = waiting.popleft()
        scopes, operations = scope.shown
        left -= len(scopes) + len(operations)
        found.add(scope)
        waiting.extend(scopes)
    return found


def _content(scope: _Scope, with_room: set[_Scope], is_open: bool) -> Markup:
    """The scopes and operations in a scope."""
    scopes, operations = scope.shown
    inside = [_details(each, with_room, is_open) for each in scopes]
    rows = table(map(_row, operations), ("operation", "type", "results", "takes")) if operations else None
    return joined([*inside, rows, more(scope.left_out, "scopes and operations")])


def _details(scope: _Scope, with_room: set[_Scope], is_open: bool) -> Markup:
    about = element("span", f"  {counted(scope.types.total(), 'operation')}: {_common(scope)}", class_="muted")
    head = element("summary", scope.label or "(no name)", about)
    if scope not in with_room:
        return element("details", head, element("div", "not shown: the graph is large", class_="muted"))
    return element("details", head, _content(scope, with_room, is_open), open=is_open)


def _row(entry: tuple[str, "Operation"]) -> tuple[str, ...]:
    label, operation = entry
    results = names(str(tensor.spec) for tensor in operation.outputs)
    return label, operation.type, results, names(tensor.op.name for tensor in operation.inputs)


def names(found: Iterable[str]) -> str:
    """Names in a row, the first of many."""
    listed = list(found)
    return ", ".join(listed[:_INPUTS]) + (f" and {len(listed) - _INPUTS} more" if len(listed) > _INPUTS else "")


def _common(scope: _Scope) -> str:
    """The most frequent types of operations in a scope."""
    found = [f"{count:,} {name}" for name, count in scope.types.most_common(_TYPES)]
    return ", ".join([*found, *(["…"] if len(scope.types) > _TYPES else [])])
