"""GPUs that sessions are given in tests: real ones, of the process. Fake ones are in `aioflow.testing`."""

import asyncio
import gc

import pytest

import aioflow as af
from aioflow.devices.cuda import CudaDriver, device_count
from aioflow.testing import no_pending_tasks

needs_gpu = pytest.mark.skipif(device_count() == 0, reason="CuPy is not installed, or sees no GPU")


class RealGpus:
    """The GPUs of sessions: two, which are one and the same where the process has one."""

    def __init__(self):
        second = 1 if device_count() > 1 else 0
        self.drivers = [CudaDriver(0), CudaDriver(second)]
        self._before = self._used()

    def config(self, **options):
        """A configuration with these GPUs and two CPUs."""
        options.setdefault("allow_soft_placement", True)
        return af.Config(device_count={"CPU": 2}, gpus=self.drivers, **options)

    def check(self):
        """No memory is held."""
        gc.collect()
        assert self._used() == self._before, f"{self._before} bytes were used before, {self._used()} are now: {_held()}"

    def _used(self):
        return [driver.used_bytes() for driver in self.drivers]


def _held():
    """The arrays that are alive, each with the types of what refers to it."""
    arrays = [each for each in gc.get_objects() if type(each) is CudaDriver(0).array_type]
    return [(each.shape, each.dtype, [type(by).__name__ for by in gc.get_referrers(each)]) for each in arrays]


def run_on_real_loop(coroutine):
    """What the coroutine comes to on a loop whose time is real, as that of a GPU is; nothing of it is left."""

    async def run():
        with no_pending_tasks():
            return await coroutine

    with asyncio.Runner() as runner:
        return runner.run(run())
