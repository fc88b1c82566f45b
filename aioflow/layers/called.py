"""The tensors that a layer was called with, and those that it returned: `layer.input` and `layer.output`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from aioflow.graph.building import get_default_graph
from aioflow.layers.calls import Call, calls_of

if TYPE_CHECKING:
    from aioflow.graph.graph import Graph


class _OfOnlyCall:
    """An attribute that each call has. A layer may have one of its own by that name."""

    def __init__(self, what: str, doc: str) -> None:
        self._what: Final = what
        self.__doc__ = doc

    def __get__(self, layer: "Called | None", kind: type) -> Any:
        if layer is None:
            return self
        found = layer._recorded()
        if len(found) != 1:
            mend = f"choose one by get_{self._what}_at" if found else "call it first"
            raise AttributeError(f"{layer.name!r} has no {self._what} of its own: it has {_times(found)}; {mend}")
        return getattr(found[0], f"{self._what}s")


class Called:
    """What remembers its calls outside of other layers."""

    name: Any
    input: Any = _OfOnlyCall("input", "What its only call was given. AttributeError unless it was called once.")
    output: Any = _OfOnlyCall("output", "What its only call returned. AttributeError unless it was called once.")
    _called_in: "Graph | None" = None

    def get_input_at(self, node_index: int) -> Any:
        """What the call of that number was given. ValueError if there are not as many calls."""
        return self._call_at(node_index).inputs

    def get_output_at(self, node_index: int) -> Any:
        """What the call of that number returned. ValueError if there are not as many calls."""
        return self._call_at(node_index).outputs

    def _call_at(self, number: int) -> Call:
        found = self._recorded()
        if not -len(found) <= number < len(found):
            raise ValueError(f"{self.name!r} has {_times(found)}, and none is number {number}")
        return found[number]

    def _recorded(self) -> list[Call]:
        return calls_of(self, self._called_in or get_default_graph().root)


def _times(found: Sequence[Call]) -> str:
    return f"{len(found)} call{'s' * (len(found) != 1)} outside of other layers"
