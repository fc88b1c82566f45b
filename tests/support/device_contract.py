"""What every device with a memory of its own does, whatever it is made of: a class to inherit from.

A test class gives it `gpus`: a fixture of two devices that are closed afterwards.
"""

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from aioflow import errors
from aioflow.devices.cuda_graph import GraphLauncher
from aioflow.devices.gpu import LARGE, on_stream
from aioflow.devices.transfer import move, receive, start_transfer
from aioflow.tensors.tensor_list import CLEARED, UNWRITTEN, TensorList

CPU = SimpleNamespace(name="/job:localhost/replica:0/task:0/device:CPU:0")
DTYPES = ["bool", "int8", "int32", "int64", "uint8", "uint64", "float16", "float32", "float64", "complex64"]


class DeviceTests:
    """The contract."""

    @pytest.fixture
    def gpu(self, gpus):
        return gpus[0]

    def keep_busy(self, gpu):
        """Enqueue work that takes a while; a fake GPU takes its time anyway."""

    # Moving

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
    async def test_what_goes_there_and_back_is_the_same(self, gpu, dtype, shape):
        value = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
        there = await move(value, CPU, gpu)
        assert gpu.holds(there)
        assert there.shape == shape
        back = await move(there, gpu, CPU)
        assert type(back) is np.ndarray
        assert back.dtype == value.dtype
        np.testing.assert_array_equal(back, value)

    @pytest.mark.parametrize(
        "view", [lambda x: x.T, lambda x: x[::2], lambda x: x[:, 1:3], lambda x: x[1], lambda x: x[..., None]]
    )
    async def test_views_arrive_as_they_look_on_both_sides(self, gpu, view):
        value = np.arange(12.0).reshape(3, 4)
        np.testing.assert_array_equal(await move(await move(view(value), CPU, gpu), gpu, CPU), view(value))
        there = await move(value, CPU, gpu)
        with gpu:
            part = view(there)
        np.testing.assert_array_equal(await move(part, gpu, CPU), view(value))

    async def test_scalars_of_the_host_become_arrays_of_rank_0(self, gpu):
        for value in (np.float32(2.5), 2.5, True, np.int64(3)):
            there = await move(value, CPU, gpu)
            assert there.shape == ()
            assert await move(there, gpu, CPU) == value

    async def test_what_is_wanted_in_host_memory_is_the_same_object_there(self, gpu):
        sizes = np.array([2, 3], np.int32)
        assert await move(sizes, CPU, gpu, host=True) is sizes
        assert await move(sizes, gpu, CPU) is sizes
        assert await move(sizes, gpu, gpu, host=True) is sizes

    async def test_what_a_kernel_made_is_fetched_to_host_memory_of_its_own_device(self, gpu):
        there = await move(np.array([2, 3]), CPU, gpu)
        assert await move(there, gpu, gpu) is there
        fetched = await move(there, gpu, gpu, host=True)
        assert type(fetched) is np.ndarray
        np.testing.assert_array_equal(fetched, [2, 3])

    async def test_the_source_may_be_changed_as_soon_as_it_was_moved(self, gpu):
        value = np.ones(1000)
        there = await move(value, CPU, gpu)
        value[...] = 7
        np.testing.assert_array_equal(await move(there, gpu, CPU), np.ones(1000))

    async def test_large_values_are_copied_beside_the_loop(self, gpu):
        value = np.arange(LARGE // 4)
        there = await move(value[::2], CPU, gpu)
        value[...] = 0
        np.testing.assert_array_equal(await move(there, gpu, CPU), np.arange(LARGE // 4)[::2])

    async def test_lists_are_moved_with_their_gaps_and_the_lists_in_them(self, gpu):
        inner = TensorList.of([np.float32(1), UNWRITTEN])
        value = TensorList.of([np.arange(3), CLEARED, inner])
        there = await move(value, CPU, gpu)
        first, gap, second = there.elements()
        assert gpu.holds(first)
        assert gap is CLEARED
        assert second.item(1) is UNWRITTEN
        back = await move(there, gpu, CPU)
        np.testing.assert_array_equal(back.item(0), [0, 1, 2])
        assert back.item(2).item(0) == 1

    @pytest.mark.parametrize(
        ("value", "message"),
        [(np.array([b"a"], object), "text cannot be moved"), (object(), "an? object cannot be moved")],
    )
    async def test_what_no_gpu_can_hold_is_refused(self, gpu, value, message):
        with pytest.raises(errors.InvalidArgumentError, match=message):
            await move(value, CPU, gpu)

    async def test_a_value_goes_from_one_to_the_other(self, gpus):
        one, other = gpus
        there = await move(np.arange(6.0).reshape(2, 3), CPU, one)
        with one:
            there = (there * 2).T
        beyond = await move(there, one, other)
        with other:
            beyond = beyond + 1
        np.testing.assert_array_equal(await move(beyond, other, CPU), np.arange(6.0).reshape(2, 3).T * 2 + 1)

    # Kernels

    async def test_kernels_read_what_kernels_before_them_made(self, gpu):
        x = await move(np.arange(4.0), CPU, gpu)
        with gpu:
            for _ in range(10):
                x = gpu.xp.add(x, 1, out=x)
        np.testing.assert_array_equal(await move(x, gpu, CPU), np.arange(4.0) + 10)

    async def test_what_is_handed_over_is_read_after_the_kernels_before_it_alone(self, gpu):
        x = await move(np.zeros(3), CPU, gpu)
        with gpu:
            y = x + 1
        transfer = start_transfer(y, gpu)
        with gpu:
            z = y * 10
        np.testing.assert_array_equal(await receive(transfer, CPU), np.ones(3))
        np.testing.assert_array_equal(await move(z, gpu, CPU), np.full(3, 10))

    async def test_many_values_move_at_the_same_time(self, gpu):
        async def there_and_back(number):
            there = await move(np.full(100, number), CPU, gpu)
            with gpu:
                there = there * 2
            return await move(there, gpu, CPU)

        for number, value in enumerate(await asyncio.gather(*map(there_and_back, range(30)))):
            np.testing.assert_array_equal(value, np.full(100, 2 * number))

    async def test_memory_is_used_again_in_the_right_order(self, gpu):
        for number in range(30):
            there = await move(np.full(1000, number), CPU, gpu)
            with gpu:
                made = there + there
                del there
            np.testing.assert_array_equal(await move(made, gpu, CPU), np.full(1000, 2 * number))

    async def test_a_kernel_that_waits_has_the_stream_only_while_it_computes(self, gpu):
        x = await move(np.ones(3), CPU, gpu)
        turn = asyncio.Event()

        async def kernel():
            y = x + 1
            await turn.wait()
            return y * 2

        async with asyncio.TaskGroup() as group:
            first, second = [group.create_task(_driven(gpu, kernel())) for _ in range(2)]
            await asyncio.sleep(0)
            turn.set()
        for task in (first, second):
            np.testing.assert_array_equal(await move(task.result(), gpu, CPU), np.full(3, 4))

    async def test_what_is_raised_into_a_kernel_that_waits_reaches_it(self, gpu):
        reached = []

        async def kernel():
            try:
                await asyncio.Event().wait()
            finally:
                reached.append(True)

        task = asyncio.create_task(_driven(gpu, kernel()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert reached == [True]

    async def test_what_fails_in_a_kernel_leaves_the_stream(self, gpu):
        x = await move(np.ones(3), CPU, gpu)
        with pytest.raises(ZeroDivisionError), gpu:
            1 / 0  # noqa: B018
        with gpu:
            y = x + 1
        np.testing.assert_array_equal(await move(y, gpu, CPU), np.full(3, 2))

    async def test_kernels_launched_together_give_what_they_give_alone(self, gpu):
        weights = await move(np.linspace(-1, 1, 16).reshape(4, 4), CPU, gpu)

        def kernels(x, w):
            y = gpu.xp.tanh(gpu.xp.matmul(x, w)) * 2
            return [(y + x).sum(axis=0), y]

        launcher, held = GraphLauncher(gpu, "the kernels"), []
        for step in range(6):
            x = await move(np.full((4, 4), step / 4), CPU, gpu)
            with gpu:
                alone = kernels(x, weights)
                together = launcher.launch(kernels, [x, weights])
            for value, right in zip(together or alone, alone, strict=True):
                np.testing.assert_array_equal(await move(value, gpu, CPU), await move(right, gpu, CPU))
            held += zip((together or alone)[step % 2 :], alone[step % 2 :], strict=True)
        assert gpu.graphs.failures == []
        assert gpu.graphs.launches == 5
        for value, right in held:
            np.testing.assert_array_equal(await move(value, gpu, CPU), await move(right, gpu, CPU))

    async def test_kernels_that_look_at_a_value_are_not_captured(self, gpu):
        launcher = GraphLauncher(gpu, "the kernels")

        def kernels(x):
            return [x * 2 if float(x.sum()) > 0 else x]

        for _ in range(3):
            x = await move(np.ones(3), CPU, gpu)
            with gpu:
                (found,) = launcher.launch(kernels, [x]) or kernels(x)
            np.testing.assert_array_equal(await move(found, gpu, CPU), np.full(3, 2))
        assert len(gpu.graphs.failures) == 1
        getattr(gpu.driver, "machine", SimpleNamespace(looks={})).looks.clear()

    # Limits and ends

    async def test_a_cancelled_move_leaves_everything_usable(self, gpu):
        x = await move(np.ones(100_000), CPU, gpu)
        await move(x, gpu, CPU)  # so that there is page-locked memory: to get it waits for the GPU
        self.keep_busy(gpu)
        with gpu:
            x = x + 1
        moving = asyncio.create_task(move(x, gpu, CPU))
        await asyncio.sleep(0)
        moving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await moving
        np.testing.assert_array_equal(await move(x, gpu, CPU), np.full(100_000, 2))
        del x
        await gpu.settled()

    async def test_its_memory_is_free_when_nobody_holds_a_value(self, gpu):
        before = gpu.driver.used_bytes()
        x = await move(np.ones(100_000), CPU, gpu)
        with gpu:
            y = x + 1
        back = await move(y, gpu, CPU)
        assert gpu.driver.used_bytes() >= before + 2 * x.nbytes
        del x, y
        await gpu.settled()
        gpu.sweep()
        assert gpu.driver.used_bytes() == before
        assert back[0] == 2

    async def test_closing_twice_is_closing_once(self, gpu):
        await move(np.ones(3), CPU, gpu)
        assert gpu.close()
        assert gpu.close()

    def test_devices_have_names_and_numbers_of_their_own(self, gpus):
        one, other = gpus
        assert one.name != other.name
        assert one.incarnation != other.incarnation
        assert one.spec.device_type == "GPU"


async def _driven(gpu, kernel):
    return await on_stream(gpu, kernel)
