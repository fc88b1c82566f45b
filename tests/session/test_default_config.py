"""`af.config`: what sessions have that are given no Config, and the devices of this process."""

import pytest

import aioflow as af
from aioflow.devices import cuda
from aioflow.session import default_config


@pytest.fixture(autouse=True)
def default():
    """Each test begins with the default, and leaves it."""
    before = default_config.default_config()
    yield
    default_config._default = before


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(cuda, "device_count", lambda: 2)


def test_settings_are_those_of_sessions_without_a_config():
    earlier = af.Session()
    af.config.set_soft_device_placement(True)
    af.debugging.set_log_device_placement(True)
    af.config.threading.set_inter_op_parallelism_threads(3)
    af.config.threading.set_intra_op_parallelism_threads(2)
    af.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    wanted = af.Config(
        allow_soft_placement=True, log_device_placement=True, compute_threads=3, blas_threads=2, optimize=False
    )
    assert af.Session().config == wanted
    assert af.Session(config=af.Config()).config == earlier.config == af.Config()
    assert af.config.get_soft_device_placement()
    assert af.debugging.get_log_device_placement()
    assert af.config.threading.get_inter_op_parallelism_threads() == 3
    assert af.config.threading.get_intra_op_parallelism_threads() == 2
    assert af.config.optimizer.get_experimental_options() == {"disable_meta_optimizer": True}
    af.config.threading.set_inter_op_parallelism_threads(0)
    af.config.threading.set_intra_op_parallelism_threads(0)
    assert af.Session().config.compute_threads == af.Config().compute_threads
    assert af.Session().config.blas_threads is None


def test_a_session_of_a_cluster_leaves_out_what_is_said_of_devices():
    af.config.set_soft_device_placement(True)
    af.config.threading.set_inter_op_parallelism_threads(3)
    (cpu,) = af.config.list_physical_devices("CPU")
    af.config.set_logical_device_configuration(cpu, [af.config.LogicalDeviceConfiguration()] * 2)
    with af.Graph().as_default():
        assert af.Session("ws://127.0.0.1:1").config == af.Config(allow_soft_placement=True)


def test_an_invalid_setting_changes_nothing():
    with pytest.raises(ValueError, match="compute_threads must be at least 1"):
        af.config.threading.set_inter_op_parallelism_threads(-1)
    with pytest.raises(TypeError, match="allow_soft_placement is True or False"):
        af.config.set_soft_device_placement("yes")
    with pytest.raises(ValueError, match="'layout_optimizer' cannot be set alone"):
        af.config.optimizer.set_experimental_options({"layout_optimizer": True})
    with pytest.raises(ValueError, match="a graph is always built first"):
        af.config.run_functions_eagerly(True)
    assert af.Session().config == af.Config()


def test_devices_are_listed_and_chosen(two_gpus):
    cpu, first, second = af.config.list_physical_devices()
    assert [first, second] == af.config.list_physical_devices("GPU") == af.config.get_visible_devices("GPU")
    af.config.set_visible_devices(first, "GPU")
    assert default_config.default_config().device_count == {"GPU": 1}
    assert [device.name for device in af.config.list_logical_devices()] == ["/device:CPU:0", "/device:GPU:0"]
    af.config.set_visible_devices([cpu])
    assert af.config.get_visible_devices() == [cpu]
    for devices, kind, mend in (([second], "GPU", "CUDA_VISIBLE_DEVICES"), ([], "CPU", "cannot be left out")):
        with pytest.raises(ValueError, match=mend):
            af.config.set_visible_devices(devices, kind)


async def test_the_cpu_is_divided_and_memory_is_limited(two_gpus):
    cpu, first, _ = af.config.list_physical_devices()
    part = af.config.LogicalDeviceConfiguration
    af.config.set_visible_devices([], "GPU")
    af.config.set_logical_device_configuration(cpu, [part(), part(memory_limit=2)])
    assert af.config.get_logical_device_configuration(cpu) == [part(), part(memory_limit=2)]
    async with af.Session(graph=af.Graph()) as session:
        limits = [(device.name[-5:], device.memory_limit) for device in session.list_devices()]
    assert limits == [("CPU:0", None), ("CPU:1", 2 << 20)]
    af.config.set_logical_device_configuration(first, [part(memory_limit=1)])
    assert af.config.get_logical_device_configuration(first) == [part(memory_limit=1)]
    af.config.set_logical_device_configuration(cpu, None)
    assert af.config.get_logical_device_configuration(cpu) is None
    assert dict(default_config.default_config().memory_limit) == {"GPU:0": 1 << 20}
    with pytest.raises(ValueError, match="not divided into 2"):
        af.config.set_logical_device_configuration(first, [part(), part()])
    with pytest.raises(ValueError, match="GPU:7"):
        af.config.get_logical_device_configuration(af.config.PhysicalDevice("/physical_device:GPU:7", "GPU"))


def test_the_version_of_graphs_is_that_of_graph_def():
    assert af.Graph().as_graph_def().to_plain()["version"] == af.version.GRAPH_DEF_VERSION == af.GRAPH_DEF_VERSION
    assert f"v{af.VERSION}" == af.GIT_VERSION
