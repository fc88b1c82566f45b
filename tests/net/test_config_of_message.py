"""TensorFlow's ConfigProto becomes a Config: what has a meaning is taken, what changes no result is ignored."""

import dataclasses

import pytest

import aioflow as af
from aioflow.devices import cuda

GB = 1 << 30
TAKEN = {
    "nothing": ({}, {}),
    "threads": (
        {"intra_op_parallelism_threads": 2, "inter_op_parallelism_threads": 3},
        {"blas_threads": 2, "compute_threads": 3},
    ),
    "placement": (
        {"allow_soft_placement": True, "log_device_placement": True},
        {"allow_soft_placement": True, "log_device_placement": True},
    ),
    "a time limit": ({"operation_timeout_in_ms": 1500}, {"operation_timeout": 1.5}),
    "tasks": ({"device_filters": ["/job:ps"]}, {"device_filters": ("/job:ps",)}),
    "devices": ({"device_count": {"CPU": 2, "GPU": 0}}, {"device_count": {"CPU": 2, "GPU": 0}}),
    "GPUs by their numbers": ({"gpu_options": {"visible_device_list": "0, 1"}}, {"device_count": {"GPU": 2}}),
    "fewer GPUs than are visible": (
        {"gpu_options": {"visible_device_list": "0,1"}, "device_count": {"GPU": 1}}, {"device_count": {"GPU": 1}},
    ),
    "memory": (
        {"gpu_options": {"per_process_gpu_memory_fraction": 0.25}},
        {"memory_limit": {"GPU:0": 2 * GB, "GPU:1": 4 * GB}},
    ),
    "memory of one GPU": (
        {"gpu_options": {"per_process_gpu_memory_fraction": 0.25}, "device_count": {"GPU": 1}},
        {"memory_limit": {"GPU:0": 2 * GB}, "device_count": {"GPU": 1}},
    ),
    "no simplification": ({"graph_options": {"optimizer_options": {"opt_level": "L0"}}}, {"optimize": False}),
    "no passes": ({"graph_options": {"rewrite_options": {"disable_meta_optimizer": True}}}, {"optimize": False}),
    "recomputation": (
        {"graph_options": {"rewrite_options": {"memory_optimization": "RECOMPUTATION_HEURISTICS"}}},
        {"recompute": True},
    ),
    "both ways to save memory": (
        {"graph_options": {"rewrite_options": {"memory_optimization": "HEURISTICS"}}},
        {"recompute": True, "swap_to_host": True},
    ),
    "no way to save memory": (
        {"graph_options": {"rewrite_options": {"memory_optimization": "NO_MEM_OPT"}}}, {"order_for_memory": False},
    ),
    "short floats between tasks": (
        {"graph_options": {"enable_bfloat16_sendrecv": True}}, {"compression": {"workers": "bfloat16"}},
    ),
    "what changes no result": (
        {
            "use_per_session_threads": True, "placement_period": 3, "gpu_options": {"allow_growth": True},
            "rpc_options": {"num_channels_per_target": 2},
            "graph_options": {
                "infer_shapes": True, "optimizer_options": {"global_jit_level": "ON_1", "do_constant_folding": True},
                "rewrite_options": {"constant_folding": "OFF", "meta_optimizer_iterations": "TWO"},
            },
        },
        {},
    ),
}  # fmt: skip
REFUSED = {
    "cluster_def": {"cluster_def": {"job": [{"name": "ps"}]}},
    "experimental.executor_type": {"experimental": {"executor_type": "SINGLE_THREADED_EXECUTOR"}},
    "gpu_options.allocator_type": {"gpu_options": {"allocator_type": "BFC"}},
    "graph_options.build_cost_model": {"graph_options": {"build_cost_model": 3}},
    "graph_options.rewrite_options.auto_mixed_precision": {
        "graph_options": {"rewrite_options": {"auto_mixed_precision": "ON"}}
    },
    "graph_options.rewrite_options.optimizers": {"graph_options": {"rewrite_options": {"optimizers": ["layout"]}}},
    "isolate_session_state": {"isolate_session_state": True},
    "memory_optimization MANUAL": {"graph_options": {"rewrite_options": {"memory_optimization": "MANUAL"}}},
    "per_process_gpu_memory_fraction": {"gpu_options": {"per_process_gpu_memory_fraction": 1.5}},
    "session_inter_op_thread_pool": {"session_inter_op_thread_pool": [{"num_threads": 1}]},
    "visible_device_list": {"gpu_options": {"visible_device_list": "1"}},
    "compute_threads must be at least 1, and is -1": {"inter_op_parallelism_threads": -1},
}


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(cuda, "device_count", lambda: 2)
    monkeypatch.setattr(cuda, "memory_bytes", lambda index: (8 + 8 * index) * GB)


@pytest.mark.parametrize("what", TAKEN)
@pytest.mark.usefixtures("two_gpus")
@pytest.mark.whole
def test_a_message_becomes_the_configuration_of_a_session(what):
    from aioflow.net.config_of_message import config_of

    fields, wanted = TAKEN[what]
    assert config_of(af.ConfigProto(**fields)) == dataclasses.replace(af.Config(), **wanted)


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.whole
def test_what_no_session_can_do_is_refused_by_name(what):
    with pytest.raises(ValueError, match=what):
        af.Session(config=af.ConfigProto(**REFUSED[what]))


def test_another_message_is_no_configuration():
    with pytest.raises(TypeError, match="must be Config or ConfigProto, not"):
        af.Session(config=af.GPUOptions())
    with pytest.raises(TypeError, match="config must be Config, not 3"):
        af.train.Server({"a": ["localhost:1"]}, "a", config=3)


async def test_sessions_and_servers_take_a_message():
    message = af.ConfigProto(device_count={"CPU": 2})
    with af.Graph().as_default():
        with af.device("/cpu:1"):
            total = af.constant(1) + 2
        async with af.Session(config=message) as session:
            assert await session.run(total) == 3
        async with af.train.MonitoredTrainingSession(config=message) as session:
            assert await session.run(total) == 3
    assert af.train.Server({"a": ["localhost:1"]}, "a", config=message).name == "/job:a/replica:0/task:0"
