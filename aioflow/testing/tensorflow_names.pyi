"""`af.test`: test cases that await, Jacobians, and questions about this machine, under TensorFlow's names."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.config import Config as benchmark_config
from aioflow.testing.environment import assert_equal_graph_def as assert_equal_graph_def
from aioflow.testing.environment import get_temp_dir as get_temp_dir
from aioflow.testing.environment import gpu_device_name as gpu_device_name
from aioflow.testing.environment import is_built_with_cuda as is_built_with_cuda
from aioflow.testing.environment import is_built_with_cuda as is_built_with_gpu_support
from aioflow.testing.environment import is_built_with_rocm as is_built_with_rocm
from aioflow.testing.environment import is_built_with_xla as is_built_with_xla
from aioflow.testing.environment import is_cpu_target_available as is_cpu_target_available
from aioflow.testing.environment import is_gpu_available as is_gpu_available
from aioflow.testing.environment import main as main
from aioflow.testing.jacobians import compute_gradient as compute_gradient
from aioflow.testing.jacobians import compute_gradient_error as compute_gradient_error
from aioflow.testing.test_case import TestCase as TestCase

__all__ = ["TestCase", "assert_equal_graph_def", "benchmark_config", "compute_gradient", "compute_gradient_error",
    "get_temp_dir", "gpu_device_name", "is_built_with_cuda", "is_built_with_gpu_support", "is_built_with_rocm",
    "is_built_with_xla", "is_cpu_target_available", "is_gpu_available", "main"]
