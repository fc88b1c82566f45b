"""`af.quantization`: numbers rounded to or stored as integers of few bits, under TensorFlow's names."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.library.fake_quantisation": (
        "fake_quant_with_min_max_args fake_quant_with_min_max_args_gradient fake_quant_with_min_max_vars "
        "fake_quant_with_min_max_vars_gradient fake_quant_with_min_max_vars_per_channel "
        "fake_quant_with_min_max_vars_per_channel_gradient"
    ),
    "aioflow.library.quantised_numbers": (
        "dequantize quantize quantize_and_dequantize quantize_and_dequantize_v2 quantized_concat"
    ),
})  # fmt: skip
