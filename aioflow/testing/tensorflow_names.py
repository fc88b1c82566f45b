"""`af.test`: test cases that await, Jacobians, and questions about this machine, under TensorFlow's names."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.config": "benchmark_config=Config",
    "aioflow.testing.environment": (
        "assert_equal_graph_def get_temp_dir gpu_device_name is_built_with_cuda "
        "is_built_with_gpu_support=is_built_with_cuda is_built_with_rocm is_built_with_xla is_cpu_target_available "
        "is_gpu_available main"
    ),
    "aioflow.testing.jacobians": "compute_gradient compute_gradient_error",
    "aioflow.testing.test_case": "TestCase",
})  # fmt: skip
