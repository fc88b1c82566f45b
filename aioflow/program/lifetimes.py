"""When the values of one block of a region end, and which of their arrays later kernels may write into."""

import math
from collections.abc import Sequence, Set

from aioflow.plan.passes.flow import Value
from aioflow.plan.passes.liveness import is_surely_alike
from aioflow.program.blocks import may_be_overwritten
from aioflow.program.fuse import Bound, Chain
from aioflow.program.pieces import Member


class Lifetimes:
    """The lifetimes of the values of one block.

    Attributes:
        wanted: the values needed after the block.
        owned: the values from before the block that it may overwrite, but not in the first iteration of a loop.
        reusable: the values whose arrays the last kernel that reads them may write into.
        last_use: for each value that the block may drop, the position of the last statement that reads it.
    """

    def __init__(
        self,
        statements: Sequence[Member],
        outputs: Sequence[Value],
        inputs: Sequence[Value],
        owned: Sequence[Value],
        reusable: Set[Value] = frozenset(),
    ) -> None:
        """Find the lifetimes of a block, or of a part of one whose `reusable` values are known."""
        self.wanted = set(outputs)
        self.owned = owned
        own = {*inputs, *owned, *[value for b in statements for value in b.results]} - self.wanted
        self.last_use: dict[Value, float] = {
            value: at for at, b in enumerate(statements) for value in b.inputs if value in own
        }
        made = {*owned, *[value for b in statements if may_be_overwritten(b) for value in b.results]}
        shared = {value for b in statements if not b.fresh for value in b.inputs}
        self.reusable: Set[Value] = (made - shared - self.wanted) | (reusable & own)

    def dying(self, position: int, statement: Member) -> list[Value]:
        """The inputs of the statement at that position that nothing reads after it."""
        return [value for value in dict.fromkeys(statement.inputs) if self.last_use.get(value) == position]

    def keep(self, value: Value) -> None:
        """Keep a value until the end of the block."""
        if value not in self.wanted:
            self.last_use[value] = math.inf

    def buffer(self, position: int, b: Bound | Chain) -> Value | None:
        """An input that dies here, that nothing else refers to, and that surely is like the result."""
        if not b.out or (isinstance(b, Bound) and b.lends):
            return None
        wanted, allowed = b.results[0].spec, b.inputs if isinstance(b, Bound) else b.overwrites
        dying = [v for v in b.inputs if v in self.reusable and v in allowed and self.last_use.get(v) == position]
        return next((value for value in dying if is_surely_alike(value.spec, wanted)), None)
