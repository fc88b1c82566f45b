"""The devices of this process, and those that sessions without a Config use, by TensorFlow's functions."""

import dataclasses
from collections.abc import Iterable
from typing import Final

from aioflow.devices import cuda
from aioflow.session.default_config import change_default, default_config
from aioflow.tensors.recursion import safe_repr

_MEGABYTE: Final = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class PhysicalDevice:
    """A CPU or GPU of this process. All cores together are one CPU.

    Attributes:
        name: its name.
        device_type: CPU or GPU.

    Examples:
        >>> af.config.list_physical_devices("CPU")
        [PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]
    """

    name: str
    device_type: str


@dataclasses.dataclass(frozen=True, slots=True)
class LogicalDevice:
    """A device of the sessions that are given no Config.

    Attributes:
        name: the name that `af.device` takes.
        device_type: CPU or GPU.

    Examples:
        >>> af.config.list_logical_devices("CPU")
        [LogicalDevice(name='/device:CPU:0', device_type='CPU')]
    """

    name: str
    device_type: str


@dataclasses.dataclass(frozen=True, slots=True)
class LogicalDeviceConfiguration:
    """One of the devices that a physical device is divided into.

    Attributes:
        memory_limit: the most megabytes that it may hold; None for no limit.
        experimental_priority: not used.
        experimental_device_ordinal: not used.

    Examples:
        >>> af.config.LogicalDeviceConfiguration(memory_limit=1024).memory_limit
        1024
    """

    memory_limit: float | None = None
    experimental_priority: int | None = None
    experimental_device_ordinal: int | None = None


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Return the CPU and the GPUs of this process, or those of one kind.

    Examples:
        >>> [device.device_type for device in af.config.list_physical_devices("CPU")]
        ['CPU']
    """
    return _listed(1, cuda.device_count(), device_type)


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Return the physical devices that sessions without a Config use.

    Examples:
        >>> [device.name for device in af.config.get_visible_devices("CPU")]
        ['/physical_device:CPU:0']
    """
    return _listed(1, _gpus(), device_type)


def _listed(cpus: int, gpus: int, kind: str | None) -> list[PhysicalDevice]:
    counts = {"CPU": cpus, "GPU": gpus}
    return [
        PhysicalDevice(f"/physical_device:{each}:{index}", each)
        for each, count in counts.items()
        if kind in (None, each)
        for index in range(count)
    ]


def _gpus() -> int:
    """Return how many GPUs sessions without a Config use."""
    chosen = (default_config().device_count or {}).get("GPU")
    return cuda.device_count() if chosen is None else chosen


def set_visible_devices(devices: PhysicalDevice | Iterable[PhysicalDevice], device_type: str | None = None) -> None:
    """Choose the physical devices of sessions that are made afterwards without a Config.

    Args:
        devices: the devices: the CPU, and the first GPUs of this process, or none.
        device_type: the kind that is chosen among; by default both.

    Raises:
        ValueError: the CPU is left out, or a GPU before one that is chosen.

    Examples:
        >>> af.config.set_visible_devices([], "GPU")
        >>> af.config.get_visible_devices("GPU")
        []
    """
    chosen = [devices] if isinstance(devices, PhysicalDevice) else [*devices]
    for kind in ("CPU", "GPU") if device_type is None else (device_type,):
        _choose(kind, [device for device in chosen if device_type or device.device_type == kind])


def _choose(kind: str, chosen: list[PhysicalDevice]) -> None:
    there = list_physical_devices(kind)
    if chosen != there[: len(chosen)] or (kind == "CPU" and not chosen):
        mend = "the CPU cannot be left out" if kind == "CPU" else "to leave out earlier GPUs, set CUDA_VISIBLE_DEVICES"
        raise ValueError(f"the devices of kind {kind} are the first of {there}, not {safe_repr(chosen)}; {mend}")
    if kind == "GPU":
        change_default(device_count={**(default_config().device_count or {}), "GPU": len(chosen)})


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """Return the devices of sessions without a Config, or those of one kind.

    Examples:
        >>> [device.name for device in af.config.list_logical_devices("CPU")]
        ['/device:CPU:0']
    """
    counts = {"CPU": _cpus(), "GPU": _gpus()}
    return [
        LogicalDevice(f"/device:{kind}:{index}", kind)
        for kind, count in counts.items()
        if device_type in (None, kind)
        for index in range(count)
    ]


def _cpus() -> int:
    return (default_config().device_count or {}).get("CPU", 1)


def get_logical_device_configuration(device: PhysicalDevice) -> list[LogicalDeviceConfiguration] | None:
    """Return the logical devices of a physical device, in sessions without a Config; None if it is one device.

    Examples:
        >>> (cpu,) = af.config.list_physical_devices("CPU")
        >>> af.config.get_logical_device_configuration(cpu)
    """
    kind, index = _place(device)
    limits = [_limit(kind, number) for number in (range(_cpus()) if kind == "CPU" else (index,))]
    return None if limits == [None] else [LogicalDeviceConfiguration(limit) for limit in limits]


def _limit(kind: str, index: int) -> float | None:
    """Return the megabytes that a logical device may hold."""
    found = default_config().memory_limit_of(kind, index)
    return None if found is None else found / _MEGABYTE


def set_logical_device_configuration(
    device: PhysicalDevice, logical_devices: Iterable[LogicalDeviceConfiguration] | None
) -> None:
    """Divide the CPU into devices, or limit the memory of a GPU, in sessions made afterwards without a Config.

    Args:
        device: the physical device.
        logical_devices: its parts; None or none for one device without a limit.

    Raises:
        ValueError: there is no such device, or a GPU is to be divided.

    Examples:
        >>> (cpu,) = af.config.list_physical_devices("CPU")
        >>> af.config.set_logical_device_configuration(cpu, [af.config.LogicalDeviceConfiguration()] * 2)
        >>> [device.name for device in af.config.list_logical_devices("CPU")]
        ['/device:CPU:0', '/device:CPU:1']
        >>> af.config.set_logical_device_configuration(cpu, None)
    """
    kind, first = _place(device)
    parts = [*(logical_devices or ())] or [LogicalDeviceConfiguration()]
    if kind == "GPU" and len(parts) > 1:
        raise ValueError(f"{device.name} is one device: a GPU is not divided into {len(parts)}")
    config = default_config()
    old = {f"{kind}:{index}" for index in (range(_cpus()) if kind == "CPU" else (first,))}
    limits = {name: limit for name, limit in (config.memory_limit or {}).items() if name not in old}
    limits |= {
        f"{kind}:{first + index}": int(part.memory_limit * _MEGABYTE)
        for index, part in enumerate(parts)
        if part.memory_limit is not None
    }
    counts = {**(config.device_count or {}), **({"CPU": len(parts)} if kind == "CPU" else {})}
    change_default(device_count=counts or None, memory_limit=limits or None)


def _place(device: PhysicalDevice) -> tuple[str, int]:
    if device not in list_physical_devices():
        raise ValueError(f"{safe_repr(device)} is none of {list_physical_devices()}")
    return device.device_type, int(device.name.rpartition(":")[2])


def functions_run_eagerly() -> bool:
    """Return False: operations are built, and run later.

    Examples:
        >>> af.config.functions_run_eagerly()
        False
    """
    return False


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Do nothing if eager execution is turned off. ValueError if it is turned on: there is none.

    Examples:
        >>> af.config.run_functions_eagerly(False)
    """
    if run_eagerly:
        raise ValueError("a graph is always built first, then run: `await session.run(fetches, feeds)`")
