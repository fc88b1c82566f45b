import asyncio
import gc

import numpy as np
import pytest

from aioflow import errors
from aioflow.devices.gpu import Gpu
from aioflow.devices.transfer import move, receive, start_transfer
from aioflow.testing.fake_arrays import FakeArray
from aioflow.testing.fake_gpu import FakeGpu
from aioflow.testing.fake_streams import CaptureFailure, GpuFailure, Machine, OutOfMemory, Race, Synchronised
from tests.support.device_contract import CPU, DeviceTests

NAME = "/job:localhost/replica:0/task:0/device:GPU:"


def opened(machine, count=2, **options):
    return [Gpu(FakeGpu(machine, index, **options), f"{NAME}{index}") for index in range(count)]


def closed(machine, gpus):
    gc.collect()
    for gpu in gpus:
        assert gpu.close()
    machine.run()
    machine.check()
    assert machine.looks == {}


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def gpus(machine):
    made = opened(machine)
    yield made
    closed(machine, made)


@pytest.fixture
def gpu(gpus):
    return gpus[0]


class TestFakeGpu(DeviceTests):
    """Ticked by the loop's clock, in virtual time."""


@pytest.mark.real
class TestFakeGpuWithThreads(DeviceTests):
    """With a thread that waits for events, as a real one has."""

    @pytest.fixture
    def gpus(self, machine):
        made = opened(machine, threads=True)
        yield made
        closed(machine, made)


# Memory of its own


async def test_numpy_refuses_arrays_in_a_gpus_memory(gpu):
    there = await move(np.ones(3), CPU, gpu)
    for use in (np.asarray, np.sum, np.add.reduce, lambda x: np.add(x, 1), lambda x: np.ones(3) + x):
        with pytest.raises(TypeError), gpu:
            use(there)


async def test_kernels_refuse_arrays_of_the_host(gpu):
    there = await move(np.ones(3), CPU, gpu)
    for use in (
        lambda: gpu.xp.add(there, np.ones(3)),
        lambda: there + np.ones(3),
        lambda: there[np.array([0, 1])],
        lambda: gpu.xp.concatenate([there, np.ones(3)]),
    ):
        with pytest.raises(TypeError, match="unsupported type"), gpu:
            use()


async def test_there_are_no_scalars(gpu):
    there = await move(np.ones(3), CPU, gpu)
    with gpu:
        for value in (there.sum(), gpu.xp.max(there), there[0], there * there[0]):
            assert isinstance(value, FakeArray)


@pytest.mark.parametrize(
    "look",
    [
        lambda xp, x: bool(x.all()), lambda xp, x: int(x[0]), lambda xp, x: x.tolist(), lambda xp, x: x[x > 0],
        lambda xp, x: xp.nonzero(x), lambda xp, x: x.get(), lambda xp, x: xp.where(x), lambda xp, x: x.item(),
    ],
)  # fmt: skip
async def test_looking_at_values_is_noticed(machine, gpu, look):
    there = await move(np.ones(1), CPU, gpu)
    machine.strict = True
    with pytest.raises(Synchronised), gpu:
        look(gpu.xp, there)
    machine.looks.clear()


@pytest.mark.parametrize(
    "use",
    [
        lambda xp, x: xp.maximum.reduce(x), lambda xp, x: xp.maximum.accumulate(x), lambda xp, x: xp.multiply.reduceat,
        lambda xp, x: xp.errstate, lambda xp, x: xp.random, lambda xp, x: xp.max(x, initial=0), lambda xp, x: x.resize,
        lambda xp, x: xp.add(x, 1, order="C"), lambda xp, x: xp.zeros(3, object), lambda xp, x: xp.linalg.multi_dot,
        lambda xp, x: xp.add.at(xp.zeros(3, np.int64), xp.zeros(1, int), 1),
        lambda xp, x: xp.repeat(x, xp.ones(3, int)),
    ],
)  # fmt: skip
async def test_what_cupy_lacks_is_not_there(gpu, use):
    there = await move(np.ones(3), CPU, gpu)
    with pytest.raises((AttributeError, TypeError, NotImplementedError)), gpu:
        use(gpu.xp, there)


async def test_arrays_of_two_gpus_do_not_meet_in_a_kernel(gpus):
    one, other = gpus
    here, there = await move(np.ones(3), CPU, one), await move(np.ones(3), CPU, other)
    with pytest.raises(ValueError, match="GPU 1 is used on GPU 0"), one:
        one.xp.add(here, there)


# Time


async def test_a_value_is_on_the_host_only_after_the_copy_has_run(machine, gpu):
    there = await move(np.ones(3), CPU, gpu)
    host, event = gpu.copy_out(there, gpu.mark())
    assert not event.done
    assert host.tobytes() == b"\xa5" * 24
    await gpu.wait_until_done(event)
    np.testing.assert_array_equal(host, np.ones(3))


async def test_nobody_waits_where_values_only_go_to_the_gpu(machine, gpu):
    machine.held = True
    there = await move(np.ones(3), CPU, gpu)
    with gpu:
        there = there + 1
    machine.held = False
    np.testing.assert_array_equal(await move(there, gpu, CPU), np.full(3, 2))


async def test_copies_are_counted(machine, gpus):
    one, other = gpus
    there = await move(np.ones(3), CPU, one)
    await move(await move(there, one, other), other, CPU)
    assert machine.copies == {"H2D": 1, "P2P": 1, "D2H": 1}
    assert machine.copied == {"H2D": 24, "P2P": 24, "D2H": 24}


async def test_a_copy_runs_beside_the_kernels_after_what_it_copies(machine, gpu):
    there = await move(np.ones(3), CPU, gpu)
    transfer = start_transfer(there, gpu)
    with gpu:
        later = [there + number for number in range(50)]
    await receive(transfer, CPU)
    assert gpu.compute.ran < 50
    assert len(later) == 50


# Races


async def test_a_kernel_on_another_stream_needs_an_event(gpu):
    with gpu:
        there = gpu.xp.ones(3)
    with pytest.raises(Race, match="reads memory that"), gpu.to_host:
        there + 1
    mark = gpu.mark()
    gpu.to_host.wait_event(mark)
    with gpu.to_host:
        beside = there + 1
    with pytest.raises(Race, match="changes memory that"), gpu:
        there += 1
    gpu.compute.wait_event(gpu.keep(gpu.to_host, there, beside))


async def test_memory_freed_while_another_stream_uses_it_is_a_race():
    machine = Machine()
    (gpu,) = opened(machine, 1)
    there = await move(np.ones(3), CPU, gpu)
    gpu.to_host.wait_event(gpu.mark())
    with gpu.to_host:
        beside = there + 1
    del there
    with pytest.raises(Race, match="was freed while"):
        machine.check()
    del beside
    gpu.close()


async def test_a_stream_held_across_an_await_is_noticed(gpu):
    there = await move(np.ones(3), CPU, gpu)
    turn = asyncio.Event()

    async def holds():
        with gpu:
            await turn.wait()

    holding = asyncio.create_task(holds())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="entered by another task"):
        there + 1
    turn.set()
    await holding


async def test_kernels_need_a_stream(gpu):
    there = await move(np.ones(3), CPU, gpu)
    with pytest.raises(RuntimeError, match="no stream is current"):
        there + 1


# Graphs


async def test_nothing_runs_during_a_capture_and_all_of_it_at_a_launch(machine, gpu):
    x, out = await move(np.ones(3), CPU, gpu), await move(np.zeros(3), CPU, gpu)
    launched = machine.launches.total()

    def work():
        y = x + 1
        gpu.xp.multiply(y, 2, out=y)
        return y

    graph, y = gpu.driver.capture(work, gpu.compute)
    assert machine.launches.total() == launched
    np.testing.assert_array_equal(await move(y, gpu, CPU), np.zeros(3))
    for number in range(3):
        with gpu:
            x[...] = number
            graph.launch(gpu.compute)
        np.testing.assert_array_equal(await move(y, gpu, CPU), np.full(3, (number + 1) * 2))
    assert machine.launches["graph"] == 3
    assert machine.launches["add"] == 0
    del out


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda gpu, x: x.get(), "get waits"),
        (lambda gpu, x: bool(x.all()), r"bool\(\) waits"),
        (lambda gpu, x: x[x > 0], "a mask waits"),
        (lambda gpu, x: gpu.xp.asarray([1.0]), "neither copies"),
        (lambda gpu, x: gpu.driver.machine.stream.wait_event(gpu.mark()), "nor waits for events"),
        (
            lambda gpu, x: gpu.compute.wait_event(gpu.driver.record(gpu.driver.machine.stream)),
            "an event inside of a capture",
        ),
        (lambda gpu, x: gpu.driver.record(gpu.driver.machine.stream).synchronize(), "never done"),
    ],
)
async def test_what_no_graph_can_contain_is_refused(gpu, work, message):
    x = await move(np.ones(3), CPU, gpu)
    with pytest.raises(CaptureFailure, match=message):
        gpu.driver.capture(lambda: work(gpu, x), gpu.compute)
    with gpu:
        x = x + 1
    np.testing.assert_array_equal(await move(x, gpu, CPU), np.full(3, 2))


async def test_a_graph_keeps_its_memory_from_others_until_it_ends(gpu):
    x = await move(np.ones(1000), CPU, gpu)
    before = gpu.driver.used
    graph, y = gpu.driver.capture(lambda: (x + 1) * 2, gpu.compute)
    assert gpu.driver.used == before + 16_000
    with gpu:
        graph.launch(gpu.compute)
        others = [gpu.xp.zeros(1000) for _ in range(4)]
        graph.launch(gpu.compute)
        for other in others:
            np.testing.assert_array_equal(other._data, np.zeros(1000))
    await gpu.settled()
    del graph, others, other
    assert gpu.driver.used == before + 8_000  # y
    del y
    assert gpu.driver.used == before


async def test_freed_memory_goes_to_the_next_array(gpu):
    with gpu:
        x = gpu.xp.full(5, 3.0)
        address = gpu.driver.address(x)
        del x
        y = gpu.xp.full(5, 4.0)
    assert gpu.driver.address(y) == address


# Failures


@pytest.fixture
def small(machine):
    made = Gpu(FakeGpu(machine), f"{NAME}0", memory_limit=100)
    yield made
    made.close()


async def test_memory_that_is_used_up_is_resource_exhausted_and_can_be_freed(small):
    there = await move(np.ones(10), CPU, small)
    small.memory.hold(there, "big")
    with pytest.raises(errors.ResourceExhaustedError, match=r"GPU:0: 80 bytes do not fit.*'big' made 80 bytes"):
        await move(np.ones(10), CPU, small)
    with pytest.raises(errors.ResourceExhaustedError), small:
        there + 1
    del there
    await small.settled()
    await move(np.ones(10), CPU, small)


async def test_a_kernel_that_fails_on_the_gpu_fails_who_waits_for_it(machine):
    (gpu,) = opened(machine, 1)
    there = await move(np.ones(3), CPU, gpu)
    gpu.driver.fail_next = GpuFailure("an illegal address")
    with gpu:
        there = there + 1
    with pytest.raises(errors.UnavailableError, match="GPU:0: the GPU failed: an illegal address"):
        await gpu.settled()
    gpu.close()


async def test_a_launch_that_finds_no_memory_names_the_device(gpu):
    there = await move(np.ones(3), CPU, gpu)
    gpu.driver.fail_next = OutOfMemory("none left")
    with pytest.raises(errors.ResourceExhaustedError, match="GPU:0: none left"), gpu:
        there + 1


@pytest.mark.real
async def test_a_gpu_that_hangs_does_not_hang_who_closes_it():
    machine = Machine()
    (gpu,) = opened(machine, 1, threads=True)
    there = await move(np.ones(3), CPU, gpu)
    machine.held = True
    waiting = asyncio.create_task(move(there, gpu, CPU))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not gpu.close(limit=0.01)
    machine.held = False
    gpu.close()
