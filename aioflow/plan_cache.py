"""The plans of a session, by call signature, with the programs made of them."""

import functools
from collections import OrderedDict
from typing import Final

from aioflow.assembly import assemble
from aioflow.config import Config, RunOptions
from aioflow.context import Context
from aioflow.devices.cpu import Threads
from aioflow.executor import Program, Unit
from aioflow.plan import Plan, Signature, make_plan

DEFAULT: Final = RunOptions()
LONG_PLAN: Final = 2000
"""Operations in a graph above which its calls are planned on a thread."""


class Planned:
    """A plan with its programs, assembled when first needed."""

    __slots__ = ("fused", "lone", "plain", "plan", "streamed", "unchanged")

    def __init__(self, plan: Plan) -> None:
        self.plan: Final = plan
        self.fused: Program | None = None
        self.plain: Program | None = None
        self.streamed: Program | None = None
        self.unchanged: Program | None = None
        self.lone: Unit | None = None
        """The only unit of the fused program, if its inputs and outputs are the call's."""


class Plans:
    """A bounded cache: the least recently used plan makes room for a new one."""

    def __init__(self, config: Config, context: Context, compute: Threads) -> None:
        self._config = config
        self._context = context
        self._compute = compute
        self._plans: OrderedDict[Signature, Planned] = OrderedDict()

    @property
    def signatures(self) -> list[Signature]:
        """The signatures whose plans are kept, the least recently used first."""
        return list(self._plans)

    def clear(self) -> None:
        """Forget all plans."""
        self._plans.clear()

    def known(self, signature: Signature) -> Planned | None:
        """The plan of a signature, if it was made before and not dropped since."""
        found = self._plans.get(signature)
        if found is not None:
            self._plans.move_to_end(signature)
        return found

    def planned(self, signature: Signature) -> Planned:
        """The plan of a signature, made here and now if it is new."""
        return self.known(signature) or self._keep(signature, Planned(make_plan(signature, self._config.optimize)))

    async def plan(self, signature: Signature) -> Planned:
        """The same; a long one is made on a compute thread, for planning it here would hold the loop."""
        found = self.known(signature)
        if found is not None or not self.is_long(signature):
            return found or self.planned(signature)
        made = await self._compute.run(functools.partial(self._make, signature), "planning")
        return self.known(signature) or self._keep(signature, made)

    @staticmethod
    def is_long(signature: Signature) -> bool:
        """Whether planning it may take long: the graph is large."""
        element = next((e for part in (signature.fetches, signature.targets) for e in part), None)
        return element is not None and element.graph.version > LONG_PLAN

    def _make(self, signature: Signature) -> Planned:
        planned = Planned(make_plan(signature, self._config.optimize))
        self.program(planned, DEFAULT)
        return planned

    def _keep(self, signature: Signature, planned: Planned) -> Planned:
        """Cache a plan; the least recently used one makes room."""
        self._plans[signature] = planned
        if len(self._plans) > self._config.plan_cache_size:
            self._plans.popitem(last=False)
        return planned

    def program(self, planned: Planned, options: RunOptions) -> Program:
        """The program for a run with these options."""
        if options.check_numerics:
            if planned.unchanged is None:  # by folding and merging, which would hide where a value came from
                flow = make_plan(planned.plan.signature, optimize=False).flow
                planned.unchanged = assemble(flow, self._context, fused=False, stream=False)
            return planned.unchanged
        if self._config.executor == "tokens" or options.trace:
            if planned.plain is None:
                planned.plain = assemble(planned.plan.flow, self._context, fused=False, stream=False)
            return planned.plain
        if planned.fused is None:
            blocks = self._config.fuse_elementwise
            planned.fused = assemble(planned.plan.flow, self._context, fused=True, stream=False, blocks=blocks)
            planned.lone = _lone_unit(planned.fused)
        return planned.fused

    def streamed(self, planned: Planned) -> Program:
        """The program of a partial run, whose feeds arrive while it runs."""
        if planned.streamed is None:
            fused = self._config.executor != "tokens"
            planned.streamed = assemble(planned.plan.flow, self._context, fused=fused, stream=True)
        return planned.streamed


def _lone_unit(program: Program) -> Unit | None:
    """The only unit, if it takes the feeds, makes the fetches, and has no loop: only in a step can a loop be ended."""
    if len(program.units) != 1 or program.flows:
        return None
    unit = program.units[0]
    if unit.cost.endless:
        return None
    return unit if unit.inputs == program.feeds and unit.outputs == program.fetches else None
