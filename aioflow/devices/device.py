"""The CPU device, and the list of devices of a task."""

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from aioflow import errors
from aioflow.config import Config
from aioflow.devices import cuda
from aioflow.devices.cpu import Cores, Threads
from aioflow.devices.driver import Driver
from aioflow.devices.gpu import Gpu
from aioflow.devices.heap import keep_freed_memory
from aioflow.devices.memory import ChargeTable, Ledger
from aioflow.graph.device_spec import DeviceSpec
from aioflow.tensors.dtypes import DeviceKind, Namespace

HERE: Final = "/job:localhost/replica:0/task:0"
"""The task name of a session without a cluster."""


class DeviceAttributes(NamedTuple):
    """The properties of a device.

    Attributes:
        name: its full name.
        device_type: CPU or GPU.
        memory_limit: the most bytes that it may hold; None for no limit.
        incarnation: a number that tells it from an earlier device of the same name.

    Examples:
        >>> [device.device_type for device in session.list_devices()]
        ['CPU']
    """

    name: str
    device_type: str
    memory_limit: int | None
    incarnation: int


class Device:
    """A CPU device. It owns its threads, which start with the first work, until it is closed.

    Attributes:
        name: its full name.
        spec: the parts of the name.
        kind: CPU.
        xp: its array namespace.
        incarnation: a number that tells it from an earlier device of the same name.
        memory: the ledger of the live results of its kernels; see `accounts`.
        compute: threads for kernels that would block the loop too long.
        cores: further threads for work on parts of large arrays.
    """

    kind: Final = DeviceKind.CPU
    xp: Final[Namespace] = np

    def __init__(self, name: str, config: Config, cores: int, charged: ChargeTable | None = None) -> None:
        self.name: Final = name
        self.spec: Final = DeviceSpec.from_string(name)
        self.incarnation: Final = secrets.randbits(63)
        limit = config.memory_limit_of(self.kind, self.spec.device_index or 0)
        self.memory: Final = Ledger(name, limit, charged=charged)
        self._accounted: Final = config.track_memory or bool(config.memory_limit)
        label = f"{self.kind}{self.spec.device_index}"
        self.compute: Final = Threads(f"aioflow-compute-{label}", config.compute_threads)
        self.cores: Final = Cores(f"aioflow-cores-{label}", cores)

    @property
    def accounts(self) -> Ledger | None:
        """`memory`, or None if the config neither limits nor tracks memory."""
        return self.memory if self._accounted else None

    def share_out(self, work: Callable[[int, int], object], size: int) -> None:
        """Run work(begin, end) for parts that cover range(size), in parallel on its cores."""
        self.cores.share_out(work, size)

    async def shut_down(self, limit: float) -> bool:
        """End the threads of its cores, which are idle between steps."""
        self.cores.close()
        return True

    def __repr__(self) -> str:
        return f"<Device {self.name}>"


AnyDevice = Device | Gpu


def attributes_of(device: AnyDevice) -> DeviceAttributes:
    """Return the properties of a device."""
    return DeviceAttributes(device.name, str(device.kind), device.memory.limit, device.incarnation)


def local_devices(config: Config, task: str = HERE) -> list[AnyDevice]:
    """Open and return the devices of a task of this process, as `Config(device_count=, gpus=)` says; CPUs come first.

    InvalidArgumentError if the process has fewer GPUs, ValueError if `memory_limit` names a device that does not exist.
    """
    keep_freed_memory()
    counts: Mapping[str, int] = config.device_count or {}
    cpus = counts.get("CPU", 1)
    cores = max(1, (os.cpu_count() or 1) // cpus)
    drivers = _drivers(config.gpus, counts.get("GPU"))
    names = [*[f"CPU:{index}" for index in range(cpus)], *[f"GPU:{index}" for index in range(len(drivers))]]
    for name in config.memory_limit or ():
        if name not in names:
            raise ValueError(f"memory_limit is for {name}, and the devices are {', '.join(names)}")
    charged: ChargeTable = {}
    return [
        *[Device(f"{task}/device:CPU:{index}", config, cores, charged) for index in range(cpus)],
        *[_gpu(driver, f"{task}/device:GPU:{index}", index, config) for index, driver in enumerate(drivers)],
    ]


def _drivers(given: Sequence[Driver] | None, count: int | None) -> Sequence[Driver]:
    """Return the drivers of the first `count` GPUs, or of all for None."""
    if count == 0:
        return ()
    there = cuda.device_count() if given is None else len(given)
    if count is not None and count > there:
        raise errors.InvalidArgumentError(
            f"device_count asks for {count} GPUs, and this process can use {there}"
            + (
                " of its own: is CuPy installed (aioflow-engine[cuda12] or aioflow-engine[cuda13]), and a driver?"
                if not given
                else ""
            )
        )
    if given is not None:
        return given[:count]
    return [cuda.CudaDriver(index) for index in range(there if count is None else count)]


def _gpu(driver: Driver, name: str, index: int, config: Config) -> Gpu:
    limit = config.memory_limit_of(Gpu.kind, index)
    return Gpu(driver, name, memory_limit=limit, track_memory=config.track_memory)
