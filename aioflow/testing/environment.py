"""What tests ask about this machine, by TensorFlow's functions, and comparisons of graphs."""

import atexit
import functools
import importlib.util
import platform
import shutil
import tempfile
import unittest
from collections.abc import Sequence
from typing import Final

from aioflow.devices import cuda
from aioflow.graph.graphdef import GraphDef
from aioflow.tensors.recursion import safe_repr

_MACHINES: Final = {"x86": ("x86_64", "AMD64"), "arm": ("aarch64", "arm64")}


@functools.cache
def get_temp_dir() -> str:
    """Return a folder for the tests of this process, which is deleted at its end. Blocks.

    Examples:
        >>> af.gfile.IsDirectory(af.test.get_temp_dir())
        True
    """
    made = tempfile.mkdtemp(prefix="aioflow-test-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tests of the main module, and end the program: unittest's `main`.

    Examples:
        >>> af.test.main.__name__
        'main'
    """
    unittest.main(argv=None if argv is None else [*argv])


def is_built_with_cuda() -> bool:
    """Whether CuPy is installed, which computes on NVIDIA's GPUs.

    Examples:
        >>> af.test.is_built_with_cuda() == af.test.is_built_with_gpu_support()
        True
    """
    return importlib.util.find_spec("cupy") is not None


def is_built_with_rocm() -> bool:
    """Return False: AMD's GPUs are not used.

    Examples:
        >>> af.test.is_built_with_rocm()
        False
    """
    return False


def is_built_with_xla() -> bool:
    """Return False: there is no XLA.

    Examples:
        >>> af.test.is_built_with_xla()
        False
    """
    return False


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: tuple[int, int] | None = None) -> bool:
    """Whether sessions of this process can use a GPU.

    ValueError for `min_cuda_compute_capability`: kernels are compiled for the GPU that is there.

    Examples:
        >>> af.test.is_gpu_available() == bool(af.config.list_physical_devices("GPU"))
        True
    """
    if min_cuda_compute_capability is not None:
        raise ValueError("min_cuda_compute_capability has no meaning: kernels are compiled for the GPU that is there")
    return cuda.device_count() > 0


def gpu_device_name() -> str:
    """Return the name of the first GPU; empty if there is none.

    Examples:
        >>> af.test.gpu_device_name() in ("", "/device:GPU:0")
        True
    """
    return "/device:GPU:0" if is_gpu_available() else ""


def is_cpu_target_available(target: str) -> bool:
    """Whether this machine has a CPU of that family: `x86`, `arm`, or a name as `platform.machine()` gives it.

    Examples:
        >>> af.test.is_cpu_target_available("x86") or af.test.is_cpu_target_available("arm")
        True
    """
    return platform.machine() in _MACHINES.get(target, (target,))


def assert_equal_graph_def(
    actual: GraphDef, expected: GraphDef, checkpoint_v2: bool = False, hash_table_shared_name: bool = False
) -> None:
    """Raise AssertionError unless two graphs have equal operations, in any order.

    Args:
        actual: a graph, as `Graph.as_graph_def` has it.
        expected: the other graph.
        checkpoint_v2: not used: names of operations are compared as they are.
        hash_table_shared_name: not used.

    Examples:
        >>> graph = af.Graph()
        >>> with graph.as_default():
        ...     one = af.constant(1, name="one")
        >>> af.test.assert_equal_graph_def(graph.as_graph_def(), graph.as_graph_def())
    """
    for each in (actual, expected):
        if not isinstance(each, GraphDef):
            raise TypeError(f"assert_equal_graph_def compares af.GraphDef, not {safe_repr(each)}")
    found, wanted = ({node["name"]: node for node in each.to_plain()["nodes"]} for each in (actual, expected))
    if found.keys() != wanted.keys():
        raise AssertionError(
            f"operations of the first graph alone: {sorted(found.keys() - wanted.keys())[:10]}; "
            f"of the second alone: {sorted(wanted.keys() - found.keys())[:10]}"
        )
    for name, node in found.items():
        if node != wanted[name]:
            raise AssertionError(f"operation {name!r} is {safe_repr(node)}, and {safe_repr(wanted[name])} is expected")
