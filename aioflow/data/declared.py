"""Elements whose dtypes and shapes the user declares, where a function decides them."""

from typing import Any, ClassVar, Final

from aioflow import errors
from aioflow.data.elements import leaves_of, structure_of, with_leaves
from aioflow.data.stage import OneInput, OneToOne, Stage
from aioflow.tensors.recursion import short_repr
from aioflow.waiting.element_spec import Elements


class _DeclaredCursor(OneInput["Declared"]):
    async def _next(self) -> Any:
        element = await self.input.take()
        try:
            return self.stage.checked(element)
        except (TypeError, ValueError) as error:
            raise self.stage.failed(errors.InvalidArgumentError(str(error)), self.given) from error


class Declared(OneToOne):
    """The same elements, which have the declared structure, dtypes and shapes.

    Args:
        source: the stage before.
        spec: the structure, with a dtype and shape for each component.
    """

    name = "with_element_spec"
    cursor: ClassVar = _DeclaredCursor

    def __init__(self, source: Stage, spec: Any) -> None:
        super().__init__(spec, source)
        self._elements: Final = Elements(leaves_of(spec))

    def checked(self, element: Any) -> Any:
        """Return the element. TypeError or ValueError if it is not as it was declared."""
        if structure_of(element) != structure_of(self.spec):
            raise ValueError(f"the element is not like the declared {self.spec}: {short_repr(element)}")
        return with_leaves(self.spec, self._elements.item(leaves_of(element)))
