"""The programs of a plan, one for each device."""

import dataclasses
from collections.abc import Sequence

from aioflow.devices.device import AnyDevice
from aioflow.program.program import Outputs, Program, Unit
from aioflow.tensors.dtypes import Array


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceProgram:
    """The program of one device.

    Attributes:
        device: the device.
        program: its program.
        feeds: the positions of the call's feeds that it takes.
        fetches: the positions of the call's fetches that it makes.
    """

    device: AnyDevice
    program: Program
    feeds: tuple[int, ...]
    fetches: tuple[int, ...]

    def given(self, feeds: Outputs) -> list[Array]:
        """Return the fed values that it takes."""
        return [feeds[index] for index in self.feeds]


class Programs:
    """The programs of one plan.

    Attributes:
        parts: the program of each device.
        single_unit: the only unit, on the first device, if its inputs and outputs are those of the call; else None.
    """

    __slots__ = ("_places", "parts", "single_unit")

    def __init__(self, parts: Sequence[DeviceProgram], first: AnyDevice) -> None:
        self.parts = tuple(parts)
        fetched = [index for part in parts for index in part.fetches]
        self._places = sorted(range(len(fetched)), key=fetched.__getitem__)
        self.single_unit = _single_unit(parts[0].program) if len(parts) == 1 and parts[0].device is first else None

    def joined(self, results: Sequence[Sequence[Array]]) -> list[Array]:
        """Return the fetches of the call, in its order, from the fetches of each device."""
        flat = [value for values in results for value in values]
        return [flat[place] for place in self._places]


def _single_unit(program: Program) -> Unit | None:
    """The only unit, if it takes the feeds, makes the fetches, and has no loop: only in a step can a loop be ended."""
    if len(program.units) != 1 or program.flows:
        return None
    unit = program.units[0]
    if unit.cost.endless:
        return None
    return unit if unit.inputs == program.feeds and unit.outputs == program.fetches else None
