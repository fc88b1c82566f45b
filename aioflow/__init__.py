"""aioflow: TensorFlow's dataflow system for asyncio. Describe a computation once as a graph, then await its steps.

    import aioflow as af

    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [None, 3])
        y = af.reduce_sum(af.tanh(x))

    async def main(batch):
        async with af.Session(graph=graph) as session:
            return await session.run(y, {x: batch})

Everything public is listed here. Importing it registers every op and starts nothing.
"""

# fmt: off
from aioflow import errors as errors
from aioflow import train as train
from aioflow.library import nn as nn
from aioflow.aggregation import AggregationMethod as AggregationMethod
from aioflow.config import Config as Config, RunOptions as RunOptions
from aioflow.convert import convert_to_tensor as convert_to_tensor
from aioflow.device_spec import DeviceSpec as DeviceSpec
from aioflow.dtypes import (
    DType as DType, as_dtype as as_dtype, bfloat16 as bfloat16, bool_ as bool_, complex64 as complex64,
    complex128 as complex128, float16 as float16, float32 as float32, float64 as float64,
    float8_e4m3fn as float8_e4m3fn, float8_e5m2 as float8_e5m2, int8 as int8, int16 as int16, int32 as int32,
    int64 as int64, resource as resource, string as string, uint8 as uint8, uint16 as uint16, uint32 as uint32,
    uint64 as uint64,
)
from aioflow.gradient_rules import (
    RegisterGradient as RegisterGradient, NotDifferentiable as NotDifferentiable, no_gradient as no_gradient,
    NoGradient as NoGradient,
)
from aioflow.gradients import (
    UnconnectedGradients as UnconnectedGradients, gradients as gradients, hessians as hessians,
)
from aioflow.graph import (
    Graph as Graph, get_default_graph as get_default_graph, reset_default_graph as reset_default_graph,
)
from aioflow.graph_keys import GraphKeys as GraphKeys
from aioflow.graphdef import GraphDef as GraphDef
from aioflow.importing import import_graph_def as import_graph_def
from aioflow.indexed_slices import IndexedSlices as IndexedSlices, IndexedSlicesValue as IndexedSlicesValue
from aioflow.kernels.argmax import argmax as argmax, argmin as argmin
from aioflow.kernels.arithmetic import (
    add as add, add_n as add_n, divide as divide, floordiv as floordiv, floormod as floormod,
    maximum as maximum, minimum as minimum, mod as mod, multiply as multiply, pow as pow,
    squared_difference as squared_difference, subtract as subtract, truediv as truediv,
)
from aioflow.kernels.arrays import (
    diag as diag, diag_part as diag_part, matrix_transpose as matrix_transpose, meshgrid as meshgrid,
    reverse as reverse, tile as tile, transpose as transpose,
)
from aioflow.kernels.assertions import (
    Assert as Assert, assert_equal as assert_equal, assert_greater as assert_greater,
    assert_greater_equal as assert_greater_equal, assert_less as assert_less,
    assert_less_equal as assert_less_equal, assert_negative as assert_negative,
    assert_non_negative as assert_non_negative, assert_non_positive as assert_non_positive,
    assert_none_equal as assert_none_equal, assert_positive as assert_positive,
)
from aioflow.kernels.casting import (
    bitcast as bitcast, cast as cast, saturate_cast as saturate_cast, to_bfloat16 as to_bfloat16,
    to_double as to_double, to_float as to_float, to_int32 as to_int32, to_int64 as to_int64,
)
from aioflow.kernels.comparison import (
    bitwise_and as bitwise_and, bitwise_or as bitwise_or, bitwise_xor as bitwise_xor, equal as equal,
    greater as greater, greater_equal as greater_equal, invert as invert, less as less,
    less_equal as less_equal, logical_and as logical_and, logical_not as logical_not, logical_or as logical_or,
    logical_xor as logical_xor, not_equal as not_equal,
)
from aioflow.kernels.complex import angle as angle, complex as complex, conj as conj, imag as imag, real as real
from aioflow.kernels.constants import (
    constant as constant, identity as identity, identity_n as identity_n, no_op as no_op,
    placeholder as placeholder, placeholder_with_default as placeholder_with_default,
    prevent_gradient as prevent_gradient, stop_gradient as stop_gradient,
)
from aioflow.kernels.counting import linspace as linspace, one_hot as one_hot, range as range
from aioflow.kernels.cumulative import cumprod as cumprod, cumsum as cumsum
from aioflow.kernels.debugging import (
    Print as Print, add_check_numerics_ops as add_check_numerics_ops, brackets as brackets,
    check_numerics as check_numerics, summarize_value as summarize_value,
    verify_tensor_all_finite as verify_tensor_all_finite,
)
from aioflow.kernels.erf import erf as erf, erfc as erfc
from aioflow.kernels.filling import (
    eye as eye, fill as fill, ones as ones, ones_like as ones_like, zeros as zeros, zeros_like as zeros_like,
)
from aioflow.kernels.gathering import gather as gather, gather_nd as gather_nd, scatter_nd as scatter_nd
from aioflow.kernels.joining import concat as concat, split as split, stack as stack, unstack as unstack
from aioflow.kernels.linalg import norm as norm, trace as trace
from aioflow.kernels.masking import boolean_mask as boolean_mask, sequence_mask as sequence_mask
from aioflow.kernels.math import (
    abs as abs, acos as acos, acosh as acosh, asin as asin, asinh as asinh, atan as atan, atan2 as atan2,
    atanh as atanh, cos as cos, cosh as cosh, exp as exp, expm1 as expm1, log as log, log1p as log1p,
    negative as negative, reciprocal as reciprocal, rsqrt as rsqrt, sigmoid as sigmoid, sign as sign,
    sin as sin, sinh as sinh, sqrt as sqrt, square as square, tan as tan, tanh as tanh,
)
from aioflow.kernels.matmul import matmul as matmul
from aioflow.kernels.padding import pad as pad
from aioflow.kernels.py_func import numpy_function as numpy_function, py_func as py_func
from aioflow.kernels.random import (
    get_seed as get_seed, multinomial as multinomial, random_normal as random_normal,
    random_shuffle as random_shuffle, random_uniform as random_uniform, set_random_seed as set_random_seed,
    truncated_normal as truncated_normal,
)
from aioflow.kernels.reduction import (
    count_nonzero as count_nonzero, reduce_all as reduce_all, reduce_any as reduce_any,
    reduce_logsumexp as reduce_logsumexp, reduce_max as reduce_max, reduce_mean as reduce_mean,
    reduce_min as reduce_min, reduce_prod as reduce_prod, reduce_sum as reduce_sum,
)
from aioflow.kernels.rounding import (
    ceil as ceil, clip_by_value as clip_by_value, floor as floor, is_finite as is_finite, is_inf as is_inf,
    is_nan as is_nan, rint as rint, round as round,
)
from aioflow.kernels.segments import segment_sum as segment_sum, unsorted_segment_sum as unsorted_segment_sum
from aioflow.kernels.select import select as select, where as where
from aioflow.kernels.shapes import (
    broadcast_to as broadcast_to, expand_dims as expand_dims, rank as rank, reshape as reshape, shape as shape,
    shape_n as shape_n, size as size, squeeze as squeeze,
)
from aioflow.kernels.slicing import slice as slice, strided_slice as strided_slice
from aioflow.kernels.sorting import invert_permutation as invert_permutation, top_k as top_k, unique as unique
from aioflow.kernels.tensordot import tensordot as tensordot
from aioflow.library.clip import (
    clip_by_average_norm as clip_by_average_norm, clip_by_global_norm as clip_by_global_norm,
    clip_by_norm as clip_by_norm, global_norm as global_norm,
)
from aioflow.library.control import (
    add_to_collection as add_to_collection, add_to_collections as add_to_collections,
    colocate_with as colocate_with, container as container, control_dependencies as control_dependencies,
    device as device, get_collection as get_collection, get_collection_ref as get_collection_ref,
    group as group, name_scope as name_scope, tuple as tuple, with_dependencies as with_dependencies,
)
from aioflow.library.custom_gradient import custom_gradient as custom_gradient
from aioflow.library.initializers import (
    Constant as Constant, GlorotNormal as GlorotNormal, GlorotUniform as GlorotUniform, Identity as Identity,
    Initializer as Initializer, Ones as Ones, RandomNormal as RandomNormal, RandomUniform as RandomUniform,
    TruncatedNormal as TruncatedNormal, VarianceScaling as VarianceScaling, Zeros as Zeros,
    constant_initializer as constant_initializer, glorot_normal_initializer as glorot_normal_initializer,
    glorot_uniform_initializer as glorot_uniform_initializer, he_normal as he_normal, he_uniform as he_uniform,
    identity_initializer as identity_initializer, lecun_normal as lecun_normal, lecun_uniform as lecun_uniform,
    ones_initializer as ones_initializer, random_normal_initializer as random_normal_initializer,
    random_uniform_initializer as random_uniform_initializer,
    truncated_normal_initializer as truncated_normal_initializer,
    variance_scaling_initializer as variance_scaling_initializer, zeros_initializer as zeros_initializer,
)
from aioflow.library.state import (
    assign as assign, assign_add as assign_add, assign_sub as assign_sub, global_variables as global_variables,
    global_variables_initializer as global_variables_initializer,
    is_variable_initialized as is_variable_initialized, local_variables as local_variables,
    local_variables_initializer as local_variables_initializer,
    moving_average_variables as moving_average_variables,
    report_uninitialized_variables as report_uninitialized_variables, scatter_add as scatter_add,
    scatter_sub as scatter_sub, scatter_update as scatter_update, trainable_variables as trainable_variables,
    variables_initializer as variables_initializer,
)
from aioflow.library.variable_scope import (
    AUTO_REUSE as AUTO_REUSE, VariableScope as VariableScope, get_local_variable as get_local_variable,
    get_variable as get_variable, get_variable_scope as get_variable_scope, variable_scope as variable_scope,
)
from aioflow.library.variables import Variable as Variable
from aioflow.node import Operation as Operation, Tensor as Tensor
from aioflow.porting import (
    Comparison as Comparison, Difference as Difference, ParameterReport as ParameterReport,
    check_learning_off as check_learning_off, compare as compare, parameter_report as parameter_report,
)
from aioflow.session import Session as Session, reset as reset, get_default_session as get_default_session
from aioflow.tensor_shape import Dimension as Dimension, TensorShape as TensorShape, as_shape as as_shape
from aioflow.tracing import NodeStats as NodeStats, RunMetadata as RunMetadata

bool, half, double = bool_, float16, float64
