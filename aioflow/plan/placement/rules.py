"""Finds the devices that fit the request of an operation and have kernels for it.

A request is a full or partial device name. If no device fits, soft placement drops the index, then the type, but never
the job, replica or task.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from aioflow import errors
from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.op import Op
from aioflow.graph.operation import Operation, describe_line
from aioflow.plan.op_cost import Site
from aioflow.plan.passes.flow import Node
from aioflow.tensors.dtypes import DeviceKind, DType, Spec

ANYWHERE: Final = DeviceSpec()
PARTS: Final = ("job", "replica", "task", "device_type", "device_index")
SOFT_PARTS: Final = ("device_type", "device_index")


def requested(operation: Operation) -> DeviceSpec:
    """Return the request of the user. InvalidArgumentError if it is not a device name."""
    try:
        return DeviceSpec.from_string(operation.device)
    except ValueError as error:
        raise at(operation, str(error)) from error


def conflict(one: DeviceSpec, other: DeviceSpec) -> str | None:
    """The first part in which no device can fit both."""
    for part in PARTS:
        mine, theirs = getattr(one, part), getattr(other, part)
        if mine is not None and theirs is not None and mine != theirs:
            return part
    return None


class _Kinds(NamedTuple):
    """The kinds of device that have a kernel of one op, by the dtypes of its inputs if that makes a difference."""

    by_dtypes: bool
    found: dict[tuple[DType, ...], frozenset[DeviceKind]]


class Rules:
    """The devices of a session."""

    def __init__(self, sites: Sequence[Site], soft: bool) -> None:
        self.sites: Final = sites
        self.soft: Final = soft
        self.available: Final = frozenset(site.kind for site in sites)
        self._kinds: dict[Op[Any], _Kinds] = {}
        self._fits: dict[tuple[DeviceSpec, frozenset[DeviceKind]], tuple[int, ...]] = {}
        self.numbers: Final = {site.name: number for number, site in enumerate(sites)}
        self._of_task: Final[dict[tuple[str | None, int | None], list[int]]] = {}
        for number, site in enumerate(sites):
            self._of_task.setdefault((site.spec.job, site.spec.task), []).append(number)
        self._nameless: Final = any(None in task for task in self._of_task)

    def kinds(self, node: Node) -> frozenset[DeviceKind]:
        """The kinds of device, of those there are, that have a kernel for the node and all that it runs."""
        if not node.blocks:
            return self.kinds_of(node.definition, node.input_specs)
        found = self.available
        for inner in node.everything():
            if inner.definition.kernels:
                found &= self.kinds_of(inner.definition, inner.input_specs)
        return found

    def kinds_of(self, definition: Op[Any], inputs: Sequence[Spec]) -> frozenset[DeviceKind]:
        """The kinds of device, of those there are, that have a kernel for these inputs."""
        known = self._kinds.get(definition)
        if known is None:
            kernels = [kernel for each in definition.kernels.values() for kernel in each]
            known = self._kinds[definition] = _Kinds(any(kernel.dtypes is not None for kernel in kernels), {})
        key = tuple([spec.dtype for spec in inputs]) if known.by_dtypes else ()
        found = known.found.get(key)
        if found is None:
            found = frozenset(kind for kind in self.available if definition.kernel_for(kind, inputs) is not None)
            known.found[key] = found
        return found

    def fitting(self, wanted: DeviceSpec, kinds: frozenset[DeviceKind]) -> tuple[int, ...]:
        """Return the numbers of the devices of these kinds that fit; if none does, those that fit softly."""
        key = wanted, kinds
        found = self._fits.get(key)
        if found is None:
            found = self._fits[key] = next(filter(None, self._tries(wanted, kinds)), ())
        return found

    def _tries(self, wanted: DeviceSpec, kinds: frozenset[DeviceKind]) -> Iterator[tuple[int, ...]]:
        yield self.exactly(wanted, kinds)
        if self.soft:
            yield self.exactly(dataclasses.replace(wanted, device_index=None), kinds)
            yield self.exactly(dataclasses.replace(wanted, device_index=None, device_type=None), kinds)

    def exactly(self, wanted: DeviceSpec, kinds: frozenset[DeviceKind] | None = None) -> tuple[int, ...]:
        """The devices that have all parts that are asked for, by number."""
        sites = self.sites
        return tuple(
            [
                number
                for number in self._candidates(wanted)
                if (kinds is None or sites[number].kind in kinds) and conflict(sites[number].spec, wanted) is None
            ]
        )

    def _candidates(self, wanted: DeviceSpec) -> Sequence[int]:
        """The devices that may fit: with a job and a task, those of that task."""
        if wanted.job is None or wanted.task is None or self._nameless:
            return range(len(self.sites))
        return self._of_task.get((wanted.job, wanted.task), ())

    def check(self, operation: Operation) -> None:
        """InvalidArgumentError if it asks for a device that is not there."""
        wanted = requested(operation)
        if not self.fitting(wanted, self.available):
            raise self.unknown(operation, wanted)

    def unknown(self, operation: Operation, wanted: DeviceSpec) -> errors.InvalidArgumentError:
        """Return the error for a request that no device fits."""
        mend = ""
        if self.soft:
            wanted = without_device(wanted)
        elif self.exactly(without_device(wanted)):
            mend = "; with af.Config(allow_soft_placement=True) it would run on one of these"
        return at(operation, f"there is no device {wanted}; there are {listed(self.sites)}{mend}")


def without_device(spec: DeviceSpec) -> DeviceSpec:
    """The job, replica and task alone."""
    return dataclasses.replace(spec, device_type=None, device_index=None)


def listed(sites: Iterable[Site]) -> str:
    """Their names."""
    return ", ".join(site.name for site in sites)


def at(operation: Operation, text: str) -> errors.InvalidArgumentError:
    """The error for that operation, with its line."""
    made = errors.InvalidArgumentError(text)
    line = describe_line(operation)
    return made.at(operation.name, operation.type, line=line, device=operation.device or None, shapes=())
