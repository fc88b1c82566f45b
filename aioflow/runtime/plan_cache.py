"""The plans of a session, by call signature, with the programs made of them.

All sessions of a graph share the plans, and the programs without the objects of each session, such as its variables
and the ledgers of its devices. The graph keeps those of its last calls. `Placer.shared` says on what a plan depends. A
program depends on its plan, the `variant`, and the settings in `_program_settings`.
"""

import contextlib
import functools
import math
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Final, Literal

from aioflow.config import Config, RunOptions
from aioflow.devices.cpu import Threads
from aioflow.devices.device import AnyDevice, DeviceAttributes, attributes_of
from aioflow.devices.gpu import Gpu
from aioflow.graph.memo import Memo
from aioflow.graph.op import Op
from aioflow.kernels.context import Context
from aioflow.plan.cost_model import CostModel
from aioflow.plan.partition import Part
from aioflow.plan.pipeline import Plan, Signature, make_flow, make_plan
from aioflow.plan.placement.report import Placement
from aioflow.plan.placer import Placer
from aioflow.program.assemble import assemble
from aioflow.program.program import DeviceProgram, Program, Programs, Unit
from aioflow.resources.containers import Resources
from aioflow.runtime.planning_thread import plan_on

DEFAULT: Final = RunOptions()
Shape = tuple[int, ...]
Variant = Literal["fused", "plain", "streamed", "unchanged"]
"""The kinds of programs of a plan: with regions of nodes that never suspend; node by node; for partial runs, whose
feeds arrive meanwhile; node by node as the user built them."""
LONG_PLAN: Final = 100
"""Calls of graphs with more planning work are planned on a thread: planning takes over 4 ms."""


class Planned:
    """A plan with its programs, assembled when first needed.

    Attributes:
        plan: the plan.
        variants: its programs.
        single_unit: the only unit of the fused program, if its inputs and outputs are those of the call. None until
            that program is assembled.
    """

    __slots__ = ("plan", "single_unit", "variants")

    def __init__(self, plan: Plan) -> None:
        self.plan: Final = plan
        self.variants: Final[dict[Variant, Programs]] = {}
        self.single_unit: Unit | None = None


class Plans:
    """A bounded cache: the least recently used plan makes room for a new one.

    Attributes:
        recent: the plans in the cache, the least recently used first. A call that owns its plan moves it to the end
            in each run; if the plan is not there, the call needs a new one.
    """

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
        self._placer = Placer(config, [_without_incarnation(attributes_of(device)) for device in devices])
        self._settings = _program_settings(config, devices)
        self.recent: Final[OrderedDict[Planned, None]] = OrderedDict()
        self._plans: Final[dict[Signature, Planned]] = {}
        self._fed: dict[Signature, list[Shape]] = {}
        """The largest shapes so far of the feeds of each call, if plans depend on sizes."""

    @property
    def signatures(self) -> list[Signature]:
        """The signatures whose plans are kept, the least recently used first."""
        return [planned.plan.signature for planned in self.recent]

    @property
    def is_limited(self) -> bool:
        """Whether plans depend on the sizes of the feeds: there are several devices, and one has a memory limit."""
        return self._placer.is_limited

    def fed(self, signature: Signature, shapes: Sequence[Shape]) -> None:
        """Record the shapes of a call's feeds. The call is planned anew if they are clearly larger than before."""
        known = self._fed.get(signature)
        if known is not None and all(map(_is_hardly_larger, shapes, known)):
            return
        self._fed[signature] = list(shapes) if known is None else list(map(_larger, shapes, known))
        self._forget(signature)

    def ran_out(self, signature: Signature, device: str) -> None:
        """Record that a step of the call ran out of a device's memory: its next plan uses less of it."""
        self._placer.ran_out(device)
        self._forget(signature)

    @property
    def model(self) -> CostModel:
        """The cost model."""
        return self._placer.model

    async def placement(self, signature: Signature) -> Placement:
        """Where each node of a call would be put, and why. It is found out on a compute thread if that takes long."""

        def find() -> Placement:
            return self._placer.placement(make_flow(signature, self._config.optimize))

        return await plan_on(self._compute, find) if self.is_long(signature) else find()

    def clear(self) -> None:
        """Forget all plans."""
        self._plans.clear()
        self.recent.clear()

    def _forget(self, signature: Signature) -> None:
        found = self._plans.pop(signature, None)
        if found is not None:
            del self.recent[found]

    def known(self, signature: Signature) -> Planned | None:
        """The plan of a signature, if it was made before and not dropped since."""
        found = self._plans.get(signature)
        if found is not None:
            self.recent.move_to_end(found)
        return found

    def planned(self, signature: Signature) -> Planned:
        """The plan of a signature, made here and now if it is new."""
        return self.known(signature) or self._keep(Planned(self._made(signature)))

    async def plan(self, signature: Signature) -> Planned:
        """The same; a long one is made on a compute thread, for planning it here would hold the loop."""
        found = self.known(signature)
        if found is not None or not self.is_long(signature):
            return found or self.planned(signature)
        made = await plan_on(self._compute, functools.partial(self._made, signature))
        return self.known(signature) or self._keep(Planned(made))

    @staticmethod
    def is_long(signature: Signature) -> bool:
        """Whether planning it may take long: the graph has much planning work."""
        graph = signature.graph
        return graph is not None and graph.planning_work > LONG_PLAN

    def _made(self, signature: Signature, optimize: bool = True, streamed: bool = False) -> Plan:
        fed = self._fed.get(signature)
        split = functools.partial(self._placer.split, streamed=streamed, fed=fed)
        optimize = optimize and self._config.optimize
        make = functools.partial(make_plan, signature, split, optimize)
        graph = signature.graph
        if graph is None or self._config.log_device_placement:  # each session logs its own placements
            return make()
        call = signature, optimize, streamed, Op.kernel_changes
        return self._placer.shared(graph.memo, call, make_flow(signature, optimize), fed, make)

    def _keep(self, planned: Planned) -> Planned:
        """Cache a plan; the least recently used one makes room."""
        self._plans[planned.plan.signature] = planned
        self.recent[planned] = None
        if len(self._plans) > self._config.plan_cache_size:
            dropped = next(iter(self.recent)).plan.signature
            self._forget(dropped)
            self._fed.pop(dropped, None)
        return planned

    async def programs(self, planned: Planned, variant: Variant) -> Programs:
        """The programs of a plan. Those of a long one are assembled on a compute thread."""
        found = planned.variants.get(variant)
        if found is not None:
            return found
        assemble = functools.partial(self._assembled, planned.plan, variant)
        long = self.is_long(planned.plan.signature)
        made = await plan_on(self._compute, assemble) if long else assemble()
        programs = planned.variants.setdefault(variant, made)
        if variant == "fused":
            planned.single_unit = programs.single_unit
        return programs

    def variant(self, options: RunOptions) -> Variant:
        """Return the kind of programs for a run with these options."""
        if options.check_numerics:
            return "unchanged"  # folding and merging would hide where a value came from
        return "plain" if self._config.executor == "tokens" or options.trace else "fused"

    def _assembled(self, plan: Plan, variant: Variant) -> Programs:
        if variant in ("streamed", "unchanged"):
            plan = self._made(plan.signature, variant != "unchanged", variant == "streamed")
        graph = plan.signature.graph
        return self.assembled(plan.parts, variant, None if graph is None else graph.memo, plan)

    def assembled(
        self, parts: Sequence[Part], variant: Variant, memo: Memo | None = None, key: Hashable = None
    ) -> Programs:
        """The programs of these parts.

        Args:
            parts: the parts of a plan.
            variant: the kind of programs.
            memo: the programs that sessions share, without the objects of each session; None to share none.
            key: the key of the parts in `memo`.
        """
        make = functools.partial(self._unlinked, parts, variant)
        if memo is None or any(isinstance(self._devices[part.device], Gpu) for part in parts):
            made = make()  # kernels of a GPU are bound to the device
        else:
            made = memo.get((key, variant, Op.kernel_changes, self._settings), make)
        return self._linked(parts, variant, made)

    def _linked(self, parts: Sequence[Part], variant: Variant, unlinked: Sequence[Program]) -> Programs:
        """The programs with the objects of this session."""
        made = []
        for part, program in zip(parts, unlinked, strict=True):
            feeds = () if variant == "streamed" else part.feeds
            linked = program.linked(self._contexts[part.device])
            made.append(DeviceProgram(self._devices[part.device], linked, feeds, part.fetches))
        return Programs(made, self._first)

    def _unlinked(self, parts: Sequence[Part], variant: Variant) -> list[Program]:
        """The programs of these parts, to be linked."""
        stream = variant == "streamed"
        fused = variant == "fused" or (stream and self._config.executor != "tokens")
        tracked = self._config.track_memory or bool(self._config.memory_limit)
        combined = fused and not stream and not tracked
        blocks, graphs = combined and self._config.fuse_elementwise, combined and self._config.cuda_graphs
        made = []
        for part in parts:
            device = self._devices[part.device]
            with device if isinstance(device, Gpu) else contextlib.nullcontext():  # constants are brought there
                program = assemble(
                    part.flow, self._contexts[part.device], fused=fused, stream=stream, blocks=blocks,
                    fast=self._config.fast_math, graphs=graphs,
                )  # fmt: skip
            made.append(program)
        return made


def _without_incarnation(device: DeviceAttributes) -> DeviceAttributes:
    """A device of this process as plans see it: no other process sends to it, so it needs no incarnation."""
    return device._replace(incarnation=0)


def _program_settings(config: Config, devices: Sequence[AnyDevice]) -> Hashable:
    """The settings on which the programs of a plan depend."""
    tracked = tuple([device.accounts is not None for device in devices])
    return config.executor, config.fuse_elementwise, config.fast_math, tracked


def _is_hardly_larger(shape: Shape, known: Shape) -> bool:
    return math.prod(shape) <= _CLEARLY * math.prod(known)


def _larger(shape: Shape, known: Shape) -> Shape:
    return shape if math.prod(shape) > math.prod(known) else known


_CLEARLY: Final = 1.1
"""The growth of a feed from which on its call is planned anew."""
