"""`af.quantization`: numbers rounded to or stored as integers of few bits, under TensorFlow's names."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.library.fake_quantisation import fake_quant_with_min_max_args as fake_quant_with_min_max_args
from aioflow.library.fake_quantisation import fake_quant_with_min_max_args_gradient as fake_quant_with_min_max_args_gradient
from aioflow.library.fake_quantisation import fake_quant_with_min_max_vars as fake_quant_with_min_max_vars
from aioflow.library.fake_quantisation import fake_quant_with_min_max_vars_gradient as fake_quant_with_min_max_vars_gradient
from aioflow.library.fake_quantisation import fake_quant_with_min_max_vars_per_channel as fake_quant_with_min_max_vars_per_channel
from aioflow.library.fake_quantisation import fake_quant_with_min_max_vars_per_channel_gradient as fake_quant_with_min_max_vars_per_channel_gradient
from aioflow.library.quantised_numbers import dequantize as dequantize
from aioflow.library.quantised_numbers import quantize as quantize
from aioflow.library.quantised_numbers import quantize_and_dequantize as quantize_and_dequantize
from aioflow.library.quantised_numbers import quantize_and_dequantize_v2 as quantize_and_dequantize_v2
from aioflow.library.quantised_numbers import quantized_concat as quantized_concat

__all__ = ["dequantize", "fake_quant_with_min_max_args", "fake_quant_with_min_max_args_gradient",
    "fake_quant_with_min_max_vars", "fake_quant_with_min_max_vars_gradient", "fake_quant_with_min_max_vars_per_channel",
    "fake_quant_with_min_max_vars_per_channel_gradient", "quantize", "quantize_and_dequantize",
    "quantize_and_dequantize_v2", "quantized_concat"]
