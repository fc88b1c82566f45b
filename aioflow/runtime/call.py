"""A prepared call: everything that a run does besides executing its plan."""

import asyncio
import collections
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.config import RunOptions
from aioflow.graph.operation import Tensor
from aioflow.plan.allocation import HARMLESS, check
from aioflow.plan.passes.flow import Flow, Node
from aioflow.plan.pipeline import Signature
from aioflow.runtime.attempts import going, note_run
from aioflow.runtime.feeds import converter
from aioflow.runtime.fetches import Fetches
from aioflow.runtime.lists import as_python_list, is_large, must_cast
from aioflow.runtime.plan_cache import DEFAULT, Planned
from aioflow.runtime.planning_thread import plan_on
from aioflow.runtime.session_state import SessionState
from aioflow.runtime.step import Step, inline_form, light_step, run_light, run_step
from aioflow.tensors import object_arrays
from aioflow.tensors.as_array import count_leaves
from aioflow.tensors.dtypes import Array, DeviceKind, ListSpec, Spec, string
from aioflow.tensors.object_arrays import SLICE_ELEMENTS
from aioflow.tensors.tensor_list import TensorList
from aioflow.tracing import RunMetadata
from aioflow.waiting.handover import Held


class Call:
    """A call signature made ready: conversions for its feeds, its plan, and the way back to the fetch structure."""

    __slots__ = (
        "converters",
        "copies",
        "dtypes",
        "fetches",
        "finish",
        "given",
        "limited",
        "planned",
        "signature",
        "state",
    )  # fmt: skip

    def __init__(self, state: SessionState, fetches: Fetches, feeds: Sequence[Tensor]) -> None:
        self.state: SessionState = state
        self.fetches: Fetches = fetches
        self.converters: list[Callable[[Any], Array]] = [converter(tensor) for tensor in feeds]
        self.dtypes: list[Any] = [_fed_dtype(tensor.spec) for tensor in feeds]
        computed = tuple([tensor for tensor in fetches.tensors if tensor not in feeds])
        self.signature: Signature = Signature(tuple(feeds), computed, fetches.operations)
        self.given: list[int | None] | None = (
            _places(fetches.tensors, feeds) if len(computed) < len(fetches.tensors) else None
        )
        self.planned: Planned | None = None
        self.limited: bool = state.plans.is_limited  # and planned for the fed shapes
        if not state.plans.is_long(self.signature) and not self.limited:
            planned = state.plans.planned(self.signature)
            self._own(planned, _finishers(planned.plan.flow))

    def _own(self, planned: Planned, finish: list[Callable[[Array], Any]]) -> None:
        """Run this plan from here on."""
        self.planned = planned
        self.finish: list[Callable[[Array], Any]] = finish
        self.copies: bool = copied in finish

    async def _plan(self) -> Planned:
        """The plan of the call. All that looks at each node of a long one happens on a compute thread."""
        plans = self.state.plans
        planned = await plans.plan(self.signature)
        find = functools.partial(_finishers, planned.plan.flow)
        self._own(planned, await plan_on(self.state.compute, find) if plans.is_long(self.signature) else find())
        return planned

    async def run(
        self,
        values: Sequence[Any],
        options: RunOptions,
        metadata: RunMetadata | None,
        held: Held | None = None,
    ) -> Any:
        """Check and convert the feeds, run, and shape the result."""
        state = self.state
        if state.observer is not None:
            observer, state.observer = state.observer, None
            run = functools.partial(self.run, values, held=held)
            feeds = [tensor.name for tensor in self.signature.feeds]
            return await observer.around(run, self.fetches, feeds, options, metadata)
        if going:
            note_run(self.signature)
        if must_convert(values, self.dtypes):
            given = await state.compute.run(functools.partial(_each, self.converters, values), "converting feeds")
        else:
            given = _each(self.converters, values)
        if self.limited:
            return await self._run_with_limits(given, options, metadata, held)
        return await self._run(given, options, metadata, held)

    async def _run_with_limits(
        self, given: Sequence[Any], options: RunOptions, metadata: RunMetadata | None, held: Held | None
    ) -> Any:
        """Run on devices with memory limits, by a plan for the fed sizes.

        After running out of memory the next run has a new plan.
        """
        plans = self.state.plans
        plans.fed(self.signature, [np.shape(value) for value in given])
        try:
            return await self._run(given, options, metadata, held)
        except errors.ResourceExhaustedError as error:
            if error.device is not None:
                plans.ran_out(self.signature, error.device)
            raise

    async def _run(
        self, given: Sequence[Any], options: RunOptions, metadata: RunMetadata | None, held: Held | None
    ) -> Any:
        """Run with converted feeds, and shape the result."""
        state = self.state
        planned, recent = self.planned, state.plans.recent
        if planned is not None and planned in recent:
            recent.move_to_end(planned)
        else:
            planned = await self._plan()
        unit = planned.single_unit if options is DEFAULT and metadata is None else None
        outputs = None
        if unit is not None and state.slice.used_up():
            await asyncio.sleep(0)  # before the run: no await may follow its last effect
        state.check_open()
        if unit is not None and not unit.waits:
            step = _light_step(state)
            state.slice.begin()
            outputs = run_light(state, step, planned.plan.counted, unit, given)
        if unit is not None and outputs is None and state.config.operation_timeout is None:
            begin = unit.begin if unit.waits else inline_form(state, unit, given)
            if begin is not None:  # a step counts the runs of random operations: a run has one
                step = Step(state, planned.plan.counted)
                outputs = await (step.run_alone(unit, given) if unit.waits else step.run_inline(unit, begin, given))
        if outputs is None:
            metadata = metadata or (RunMetadata() if options.trace else None)
            known = None if metadata is None else (len(metadata.step_stats), len(metadata.transfers))
            step, outputs = await run_step(state, planned, given, options, metadata)
            if options.trace and metadata is not None and known is not None:
                await step.before_handing_over(_learn(state, planned, options, metadata, *known))
        if self.copies and any(map(is_large, outputs)):
            copy = functools.partial(_each, self.finish, outputs)
            results = await step.before_handing_over(state.compute.run(copy, "copying fetched values"))
        else:
            results = _each(self.finish, outputs)
        if held is not None:
            held.append(step.handover)
        return self.fetches.build(results if self.given is None else self._with_given(results, given))

    def _with_given(self, results: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """Return the results, with copies of values that are both fed and fetched."""
        assert self.given is not None
        computed = iter(results)
        return [next(computed) if place is None else copied(given[place]) for place in self.given]


def must_convert(values: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether converting these feeds to these dtypes (None: strings) would block the loop too long."""
    for value, dtype in zip(values, wanted, strict=True):
        if type(value) is np.ndarray:
            if value.dtype is not dtype and (value.nbytes > _LARGE or (dtype is None and value.size > SLICE_ELEMENTS)):
                return True
        elif (type(value) is list or type(value) is tuple) and (
            count_leaves(value) > SLICE_ELEMENTS or must_cast(value, dtype)
        ):
            return True
    return False


def _light_step(state: SessionState) -> Step:
    """The step that all light runs of a session are."""
    found: Step | None = state.light
    if found is None:
        found = state.light = light_step(state)
    return found


_LARGE: Final = 1 << 20
"""Bytes: converting or copying more would hold the loop too long."""
_MANY: Final = 200
"""Executions of nodes: to learn from more would hold the loop too long."""


async def _learn(
    state: SessionState,
    planned: Planned,
    options: RunOptions,
    metadata: RunMetadata,
    stats_before: int,
    transfers_before: int,
) -> None:
    """Add the measured times of a traced run's nodes and transfers to the session's cost model.

    Transfers to or from a GPU are left out: the copy is enqueued, and waits for earlier work of the stream.
    """
    stats = metadata.step_stats[stats_before:]
    awaited = {device.name for device in state.devices if device.kind is DeviceKind.CPU}
    seen = metadata.transfers[transfers_before:]
    transfers = [each for each in seen if awaited.issuperset((each.source, each.target))]
    parts = planned.variants[state.plans.variant(options)].parts
    nodes = [node for part in parts for unit in part.program.units for node in unit.nodes]
    learn = functools.partial(state.plans.model.learn, nodes, stats, transfers)
    if len(nodes) + len(stats) > _MANY:
        await state.compute.run(learn, "learning the times of nodes")
    else:
        learn()


def _fed_dtype(spec: Spec) -> Any:
    """NumPy's dtype of what a feed is converted to, None for strings; for a list of tensors that of an element."""
    while isinstance(spec, ListSpec):
        spec = spec.element
    return None if spec.dtype is string else spec.dtype.np


def _each(functions: Sequence[Callable[[Any], Any]], values: Sequence[Any]) -> Sequence[Any]:
    if not values:
        return ()  # many waiting runs may keep this for long
    return [function(value) for function, value in zip(functions, values, strict=True)]


def _places(wanted: Sequence[Tensor], among: Sequence[Tensor]) -> list[int | None]:
    """Where each of the tensors stands among others, None if nowhere."""
    places = {tensor: place for place, tensor in enumerate(among)}
    return [places.get(tensor) for tensor in wanted]


def _finishers(flow: Flow) -> list[Callable[[Array], Any]]:
    """Return for each fetch a function that makes the value the caller's own: a copy, unless it is a fresh result."""
    fetched = collections.Counter(flow.fetches)
    readers = [(node, value) for node in flow.nodes for value in node.inputs if value in fetched]
    held = {value for node, value in readers if not _is_fresh(node)}
    alone = [fetched[value] == 1 and value not in held and _is_fresh(value.node) for value in flow.fetches]
    return [scalar if mine else copied for mine in alone]


def _is_fresh(node: Node) -> bool:
    """Whether the results of the kernel are new arrays, and it keeps none of its inputs."""
    kernel = node.definition.kernel_for(DeviceKind.CPU, node.input_specs)
    return kernel is not None and kernel.fresh


def scalar(value: Array) -> Any:
    """A scalar for an array of no axes, a Python list for a list of tensors, any other value as it is."""
    if isinstance(value, np.ndarray):
        return value if value.ndim else value[()]
    return as_python_list(value, scalar) if type(value) is TensorList else value


def copied(value: Array) -> Any:
    """Return a copy of an array, a Python list of copies for a list of tensors, and a scalar as it is.

    ResourceExhaustedError if a view is larger than the memory.
    """
    if not isinstance(value, np.ndarray):
        return as_python_list(value, copied) if type(value) is TensorList else value
    if value.nbytes > HARMLESS:
        check(value.nbytes, "a copy of a fetched value", None)
    return object_arrays.copy_array(value) if value.ndim else value[()]
