"""The plans of a session, by call signature, with the programs made of them."""

import contextlib
import functools
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from aioflow.assembly import assemble
from aioflow.config import Config, RunOptions
from aioflow.context import Context
from aioflow.cost_model import CostModel
from aioflow.devices.cpu import Threads
from aioflow.devices.device import AnyDevice
from aioflow.devices.gpu import Gpu
from aioflow.placement import Placement
from aioflow.placer import Placer
from aioflow.plan import Plan, Signature, make_flow, make_plan
from aioflow.program import Unit
from aioflow.programs import DeviceProgram, Programs
from aioflow.resources import Resources

DEFAULT: Final = RunOptions()
LONG_PLAN: Final = 2000
"""Operations in a graph above which its calls are planned on a thread."""


class Planned:
    """A plan with its programs, assembled when first needed.

    Attributes:
        plan: the plan.
        fused: what never waits is in regions.
        plain: node by node.
        streamed: for partial runs, whose feeds arrive while it runs.
        unchanged: node by node, as the user built them.
    """

    __slots__ = ("fused", "plain", "plan", "streamed", "unchanged")

    def __init__(self, plan: Plan) -> None:
        self.plan: Final = plan
        self.fused: Programs | None = None
        self.plain: Programs | None = None
        self.streamed: Programs | None = None
        self.unchanged: Programs | None = None

    @property
    def lone(self) -> Unit | None:
        """The only unit of the fused program, if its inputs and outputs are the call's."""
        return None if self.fused is None else self.fused.lone


class Plans:
    """A bounded cache: the least recently used plan makes room for a new one."""

    def __init__(self, config: Config, devices: Sequence[AnyDevice], resources: Resources, compute: Threads) -> None:
        self._config = config
        self._devices = {device.name: device for device in devices}
        self._contexts = {
            # no step: for handles alone
            device.name: Context(device.xp, resources, None, device=device)  # type: ignore[arg-type]
            for device in devices
        }
        self._first = devices[0]
        self._compute = compute
        self._placer = Placer(config, devices)
        self._plans: OrderedDict[Signature, Planned] = OrderedDict()

    @property
    def signatures(self) -> list[Signature]:
        """The signatures whose plans are kept, the least recently used first."""
        return list(self._plans)

    @property
    def model(self) -> CostModel:
        """What things are taken to cost."""
        return self._placer.model

    def placement(self, signature: Signature) -> Placement:
        """Where each node of a call would be put, and why."""
        return self._placer.placement(make_flow(signature, self._config.optimize))

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
        return self.known(signature) or self._keep(signature, self._made(signature))

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
        planned = self._made(signature)
        self.programs(planned, DEFAULT)
        return planned

    def _made(self, signature: Signature, optimize: bool = True, streamed: bool = False) -> Planned:
        split = functools.partial(self._placer.split, streamed=streamed)
        return Planned(make_plan(signature, split, optimize and self._config.optimize))

    def _keep(self, signature: Signature, planned: Planned) -> Planned:
        """Cache a plan; the least recently used one makes room."""
        self._plans[signature] = planned
        if len(self._plans) > self._config.plan_cache_size:
            self._plans.popitem(last=False)
        return planned

    def programs(self, planned: Planned, options: RunOptions) -> Programs:
        """The programs for a run with these options."""
        if options.check_numerics:
            if planned.unchanged is None:  # by folding and merging, which would hide where a value came from
                plan = self._made(planned.plan.signature, optimize=False).plan
                planned.unchanged = self._assembled(plan, fused=False, stream=False)
            return planned.unchanged
        if self._config.executor == "tokens" or options.trace:
            if planned.plain is None:
                planned.plain = self._assembled(planned.plan, fused=False, stream=False)
            return planned.plain
        if planned.fused is None:
            planned.fused = self._assembled(planned.plan, fused=True, stream=False)
        return planned.fused

    def streamed(self, planned: Planned) -> Programs:
        """The programs of a partial run, whose feeds arrive while it runs."""
        if planned.streamed is None:
            fused = self._config.executor != "tokens"
            plan = self._made(planned.plan.signature, streamed=True).plan
            planned.streamed = self._assembled(plan, fused=fused, stream=True)
        return planned.streamed

    def _assembled(self, plan: Plan, *, fused: bool, stream: bool) -> Programs:
        tracked = self._config.track_memory or self._config.memory_limit is not None
        blocks = fused and not stream and not tracked and self._config.fuse_elementwise
        made = []
        for part in plan.parts:
            device = self._devices[part.device]
            with device if isinstance(device, Gpu) else contextlib.nullcontext():  # constants are brought there
                program = assemble(part.flow, self._contexts[part.device], fused=fused, stream=stream, blocks=blocks)
            made.append(DeviceProgram(device, program, () if stream else part.feeds, part.fetches))
        return Programs(made, self._first)


__all__ = ["DEFAULT", "LONG_PLAN", "Planned", "Plans"]
