"""How special functions are written: the formulas of their kernels, in double precision."""

from typing import Final

from aioflow.graph.operation import Operation
from aioflow.kernels.math import bessel_i, bessel_j_y, bessel_k, error_functions, gamma, special_integrals
from aioflow.kernels.math.special import FORMULAS
from aioflow.onnx.exporting import EXPORTERS, Export
from aioflow.onnx.formulas import Term, Writer
from aioflow.onnx.tensors import NUMBERS
from aioflow.tensors.dtypes import float64

_DECLARED: Final = (bessel_i, bessel_j_y, bessel_k, error_functions, gamma, special_integrals)
"""The modules that declare formulas."""
_NAMES: Final = (
    "bessel_i0e", "bessel_i1e", "bessel_j0", "bessel_j1", "bessel_k0e", "bessel_k1e", "bessel_y0", "bessel_y1", "dawsn",
    "digamma", "erfc", "erfcinv", "erfinv", "expint", "fresnel_cos", "fresnel_sin", "ndtri", "spence",
)  # fmt: skip


def _export_formula(export: Export, op: Operation) -> str:
    """Narrower floats are computed in float64 and rounded once, as by the kernel."""
    wide = export.add("Cast", *export.names(op), to=NUMBERS[float64])
    writer = Writer(export)
    found = writer.name(FORMULAS[op.type](Term(writer, wide)))
    return export.add("Cast", found, to=NUMBERS[op.outputs[0].dtype])


EXPORTERS.update(dict.fromkeys(_NAMES, _export_formula))
