"""The dtypes in which a GPU computes the ops that have kernels for it.

CuPy 14 has bfloat16 through ml_dtypes, in most functions and not in all. So an op takes bfloat16 on a GPU only if the
table here lists it: every function of CuPy that its kernel calls has bfloat16. Other ops on bfloat16 run on the CPU. No
function of CuPy has float8.
"""

from collections.abc import Iterable
from typing import Final

from aioflow.tensors.dtypes import GPU_DTYPES, Spec, bfloat16, resource

_MOVE: Final = """
argument assign_variable constant expand_dims feed identity placeholder read_variable recv reshape send squeeze swap_in
swap_out to_device to_host transpose variable
"""
_COMPUTE: Final = """
abs add assign_add_variable assign_sub_variable cast ceil cos divide equal exp expm1 floor greater greater_equal less
less_equal log log1p matmul maximum minimum multiply negative not_equal sigmoid sin sqrt square subtract tanh
"""
BFLOAT16: Final = frozenset([*_MOVE.split(), *_COMPUTE.split()])
"""The ops that take bfloat16 on a GPU."""
_HELD: Final = GPU_DTYPES | {resource}


def gpu_computes(op: str, specs: Iterable[Spec]) -> bool:
    """Whether a kernel of a GPU for the op can have inputs and outputs of these dtypes."""
    dtypes = {spec.dtype for spec in specs}
    return dtypes <= _HELD and (bfloat16 not in dtypes or op in BFLOAT16)
