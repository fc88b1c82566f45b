"""Heavy kernels in a region that sends and receives: those between two transfers run together, on a thread if need be.

    t1 = await k0(ctx)                           receives
    t2, = await k1(ctx, t1)                      computes, on the loop or on a compute thread
    k2(ctx, t2)                                  sends

The step decides in each run, by the sizes of the inputs and what it has measured, where they run.
"""

import copy
import math
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from aioflow.kernels.context import Context
from aioflow.plan import op_cost
from aioflow.plan.guards import TRANSFERS, Guards
from aioflow.plan.passes.flow import Node, Value
from aioflow.plan.passes.recover_loops import spans_devices
from aioflow.program.blocks import (
    HeavyRun,
    Statement,
    count_of,
    estimate_for,
    has_branch,
    nodes_of,
    numbers_among,
    seconds_of,
    texts_among,
)
from aioflow.program.error_location import Found, Place, locals_of
from aioflow.program.handles import Objects
from aioflow.program.region import Region
from aioflow.program.thread_form import ThreadForm
from aioflow.tensors.dtypes import Array


def with_heavy_runs(statements: Sequence[Statement], wanted: Sequence[Value], blocks: bool) -> list[Statement]:
    """The statements with runs of kernels between transfers as one statement each, where they may be heavy.

    Where values may be dead in a branch, all kernels are light.
    """
    if Guards([statement.node for statement in statements]):
        return list(statements)
    found: list[Statement] = []
    left = list(statements)
    while left:
        length = next((place for place, each in enumerate(left) if _exchanges(each)), len(left))
        run, left = left[:length], left[length:]
        if _may_be_heavy(run):
            read = {*wanted, *[value for each in left for value in each.inputs]}
            found.append(_gathered(run, read, blocks))
        else:
            found += run
        found += left[:1]
        left = left[1:]
    return found


def _exchanges(statement: Statement) -> bool:
    return statement.node.definition.name in TRANSFERS or spans_devices(statement.node)


def _may_be_heavy(run: Sequence[Statement]) -> bool:
    nodes = [node for each in run for node in nodes_of(each)]
    is_known = all(spec.shape.is_fully_defined() for node in nodes for spec in node.output_specs)
    loops = [node for node in nodes if math.isinf(count_of([node]))]
    return bool(run) and (not is_known or bool(loops) or sum(map(seconds_of, run)) >= op_cost.HEAVY)


def _gathered(run: Sequence[Statement], read: set[Value], blocks: bool) -> HeavyRun:
    made = [value for each in run for value in each.results]
    inputs = dict.fromkeys([value for each in run for value in each.inputs if value not in made])
    return HeavyRun(tuple(run), tuple(inputs), tuple([value for value in made if value in read]), blocks)


class HeavyWork:
    """A run of kernels that the step drives on the loop or on a compute thread.

    Attributes:
        nodes: its nodes.
        cost: its cost.
        here: begins its coroutine for the loop.
        heavy: begins its coroutine for a compute thread.
    """

    def __init__(self, run: HeavyRun, inputs: Sequence[Value], here: Region, for_threads: Callable[[], Region]) -> None:
        self.nodes: Final[Sequence[Node]] = run.nodes
        self.cost: Final = op_cost.RegionCost(
            estimate_for(self.nodes, inputs), count_of(self.nodes), numbers_among(self.nodes, inputs),
            texts_among(inputs), has_branch(self.nodes),
        )  # fmt: skip
        self._region = here
        self.heavy: ThreadForm = ThreadForm(for_threads, here)

    @property
    def here(self) -> Callable[..., Coroutine[Any, Any, Sequence[Array]]]:
        """Begins its coroutine for the loop."""
        return self._region.begin

    def begin(self, ctx: Context, *inputs: Array) -> Coroutine[Any, Any, Sequence[Array]]:
        """A coroutine of the results, which the step drives where it belongs."""
        return ctx.step.compute(ctx, self, inputs)

    @property
    def is_linked(self) -> bool:
        """Whether it needs no object of a session."""
        return self._region.is_linked

    def linked(self, objects: Objects) -> "HeavyWork":
        """The same with the objects of a session. All sessions share what is measured."""
        made = copy.copy(self)
        made._region, made.heavy = self._region.linked(objects), self.heavy.linked(objects)
        return made

    def find(self, error: BaseException) -> Found | None:
        """Which node an error came from."""
        return self.heavy.find(error)

    def computes(self, coroutine: Any) -> Place | None:
        """The node that it computes now, found in the frame of the coroutine that drives it."""
        frame = coroutine.cr_frame
        begun = None if frame is None else locals_of(frame).get("coroutine")
        return None if begun is None else self.heavy.computes(begun)

    def __repr__(self) -> str:
        names = ", ".join(node.name for node in self.nodes[:3])
        return f"<HeavyWork: {names}{' …' if len(self.nodes) > 3 else ''}>"
