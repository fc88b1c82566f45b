"""What sessions and runs are told is checked when it is told."""

import pytest

import aioflow as af


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: af.Config(plan_cache_size=1.5), TypeError, "plan_cache_size must be int, not 1.5"),
        (lambda: af.Config(plan_cache_size=0), ValueError, "plan_cache_size must be at least 1"),
        (lambda: af.Config(compute_threads=True), TypeError, "compute_threads must be int"),
        (lambda: af.Config(operation_timeout=True), TypeError, "operation_timeout is a number of seconds"),
        (lambda: af.Config(operation_timeout="a"), TypeError, "operation_timeout is a number of seconds, not 'a'"),
        (lambda: af.Config(close_timeout=-1), ValueError, "close_timeout is in seconds and cannot be -1"),
        (lambda: af.Config(heartbeat_timeout=None), TypeError, "heartbeat_timeout is a number of seconds, not None"),
        (lambda: af.Config(heartbeat_timeout=0), ValueError, "heartbeat_timeout is in seconds, more than 0 and finite"),
        (lambda: af.Config(heartbeat_timeout=float("inf")), ValueError, "more than 0 and finite, and cannot be inf"),
        (lambda: af.Config(executor="fast"), ValueError, "'regions' or 'tokens'"),
        (lambda: af.RunOptions(timeout=float("nan")), ValueError, "timeout is in seconds and cannot be nan"),
        (lambda: af.Session(config=3), TypeError, "config must be Config or ConfigProto, not 3"),
        (lambda: af.RunOptions(trace_level=4), ValueError, "trace_level is 0 for no trace, or 1, 2 or 3, not 4"),
        (lambda: af.RunOptions(trace_level="x"), TypeError, "trace_level must be int, not 'x'"),
        (lambda: af.RunOptions(timeout_in_ms=-1), ValueError, "timeout_in_ms must be at least 0, and is -1"),
        (lambda: af.RunOptions(1.0, timeout_in_ms=5), ValueError, "give timeout=1.0 or timeout_in_ms=5, not both"),
        (lambda: af.Session(graph=3), TypeError, "graph must be Graph, not 3"),
        (lambda: af.Session("localhost:1"), ValueError, "target 'localhost:1': '' for this process, or the address"),
        (lambda: af.Session("http://localhost:1"), ValueError, "as 'ws://host:2222'"),
        (lambda: af.Session("ws://localhost:1", config=af.Config(ssl="d")), ValueError, "begins with wss://"),
        (lambda: af.Session("wss://localhost:1", config=af.Config(ssl=3)), TypeError, "ssl is a directory, an SSLCont"),
        (lambda: af.Config(compute_threads=None), TypeError, "compute_threads must be int, not None"),
        (lambda: af.Config(blas_threads=0), ValueError, "blas_threads must be at least 1, and is 0"),
        (lambda: af.Config(optimize="no"), TypeError, "optimize is True or False, not 'no'"),
        (lambda: af.Config(track_memory=1), TypeError, "track_memory is True or False, not 1"),
        (lambda: af.RunOptions(trace="yes"), TypeError, "trace is True or False, not 'yes'"),
        (lambda: af.Config(device_count=4), TypeError, "device_count is by kind, as {'CPU': 4}, not 4"),
        (lambda: af.Config(device_count={"TPU": 1}), ValueError, "device_count is by kind, CPU or GPU, not 'TPU'"),
        (lambda: af.Config(device_count={"CPU": 0}), ValueError, r"device_count\['CPU'\] must be at least 1, and is 0"),
        (lambda: af.Config(device_count={"CPU": True}), TypeError, r"device_count\['CPU'\] must be int, not True"),
        (lambda: af.Config(device_count={"GPU": -1}), ValueError, r"device_count\['GPU'\] must be at least 0"),
        (lambda: af.Config(gpus=2), TypeError, "gpus is a list of drivers"),
        (lambda: af.Config(gpus=["gpu"]), TypeError, "gpus is a list of drivers"),
        (lambda: af.Config(cost_model="m.json"), TypeError, "cost_model must be CostModel, not 'm.json'"),
        (lambda: af.Config(memory_limit=1 << 30), TypeError, "memory_limit is by device, as {'CPU:0': 1 << 30}"),
        (lambda: af.Config(memory_limit={0: 1}), TypeError, "by the names of devices, as 'CPU:0', not 0"),
        (lambda: af.Config(memory_limit={"CPU:0": "1G"}), TypeError, r"memory_limit\['CPU:0'\] must be int, not '1G'"),
        (lambda: af.Config(memory_limit={"CPU:0": -1}), ValueError, r"memory_limit\['CPU:0'\] must be at least 0"),
        (lambda: af.Config(memory_limit={"CPU:x": 1}), ValueError, "memory_limit: malformed device name 'CPU:x'"),
        (lambda: af.Config(memory_limit={"CPU": 1}), ValueError, "by the kind and number of a device, as 'CPU:0'"),
        (lambda: af.Config(memory_limit={"/job:a/cpu:0": 1}), ValueError, "by the kind and number of a device"),
        (lambda: af.Config(memory_limit={"CPU:0": 1, "cpu:0": 2}), ValueError, "is given for CPU:0 twice"),
        (lambda: af.Session(config=af.Config(memory_limit={"CPU:7": 1})), ValueError, "for CPU:7, and the devices"),
        (lambda: af.Session(config=af.Config(memory_limit={"device:T:0": 1})), ValueError, "is for T:0, and the"),
        (lambda: af.Config(token_file=b"secret"), TypeError, "token_file is the path of a file, not a token"),
        (lambda: af.Config(file_roots="/data"), TypeError, "file_roots is a list, not '/data'"),
        (lambda: af.Config(device_filters="/job:ps"), TypeError, "device_filters is a list, not '/job:ps'"),
    ],
)
def test_what_cannot_be_is_refused(make, error, said):
    with pytest.raises(error, match=said):
        make()


@pytest.mark.parametrize("name", ["CPU:1", "cpu:1", "/cpu:1", "/device:CPU:1", "device:cpu:1"])
async def test_a_device_may_be_written_in_any_way_that_scopes_allow(name):
    config = af.Config(device_count={"CPU": 2}, memory_limit={name: 7})
    assert config.memory_limit == {"CPU:1": 7}
    with af.Graph().as_default() as graph:
        async with af.Session(graph=graph, config=config) as session:
            assert [device.memory_limit for device in session.list_devices()] == [None, 7]


@pytest.mark.parametrize("told", [{"options": 3}, {"options": {"timeout": 1}}, {"metadata": 3}])
async def test_a_run_refuses_options_that_are_none_before_anything_runs(told):
    with af.Graph().as_default() as graph:
        variable = af.Variable(0.0)
        update = variable.assign_add(1.0)
    async with af.Session(graph=graph) as session:
        await session.run(variable.initializer)
        step = session.make_callable(update)
        with pytest.raises(TypeError, match="must be Run"):
            await session.run(update, None, **told)
        with pytest.raises(TypeError, match="must be Run"):
            await step(**told)
        assert await session.run(variable) == 0.0


def test_options_of_a_run_take_tensorflows_arguments():
    options = af.RunOptions(trace_level=af.RunOptions.FULL_TRACE, timeout_in_ms=1500)
    assert options == af.RunOptions(1.5, trace=True)
    assert af.RunOptions(trace_level=af.RunOptions.NO_TRACE, timeout_in_ms=0) == af.RunOptions()


async def test_all_runs_of_the_process_can_check_numbers():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None])
        y = af.log(x)
    try:
        async with af.Session(graph=graph) as session:
            run = session.make_callable(y, [x])
            af.debugging.enable_check_numerics()
            af.debugging.enable_check_numerics()
            for call in (
                lambda: session.run(y, {x: [0.0]}), lambda: run([0.0]),
                lambda: session.run(y, {x: [0.0]}, af.RunOptions(timeout=5.0)),
            ):  # fmt: skip
                with pytest.raises(af.errors.InvalidArgumentError, match="log"):
                    await call()
            af.debugging.disable_check_numerics()
            assert await run([0.0]) == [-float("inf")]
    finally:
        af.debugging.disable_check_numerics()
