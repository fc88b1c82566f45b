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
from aioflow import launch as launch
from aioflow.tensors import nest as nest
from aioflow import summary as summary
from aioflow import train as train
from aioflow.library import (
    bitwise as bitwise, collectives as collectives, image as image, initializers as initializers, io as io,
    linalg as linalg, math as math, nn as nn, python_io as python_io, random as random, sets as sets,
    sparse_names as sparse_names, strings as strings,
)
from aioflow.version import __version__ as __version__
from aioflow.autodiff.aggregate import AggregationMethod as AggregationMethod
from aioflow.config import Config as Config, RunOptions as RunOptions
from aioflow.tensors.codecs import Saving as Saving
from aioflow.graph.convert import convert_to_tensor as convert_to_tensor
from aioflow.plan.cost_model import CostModel as CostModel, Link as Link
from aioflow.plan.op_cost import Rates as Rates
from aioflow.graph.device_spec import DeviceSpec as DeviceSpec
from aioflow.devices.device import DeviceAttributes as DeviceAttributes
from aioflow.devices.memory import MemoryUse as MemoryUse
from aioflow.tensors.dtypes import (
    DType as DType, as_dtype as as_dtype, bfloat16 as bfloat16, bool_ as bool_, complex64 as complex64,
    complex128 as complex128, float16 as float16, float32 as float32, float64 as float64,
    float8_e4m3fn as float8_e4m3fn, float8_e5m2 as float8_e5m2, int8 as int8, int16 as int16, int32 as int32,
    int64 as int64, resource as resource, string as string, uint8 as uint8, uint16 as uint16, uint32 as uint32,
    uint64 as uint64,
)
from aioflow.errors import OpError as OpError
from aioflow.autodiff.rules import (
    RegisterGradient as RegisterGradient, NotDifferentiable as NotDifferentiable, no_gradient as no_gradient,
    NoGradient as NoGradient,
)
from aioflow.autodiff.gradients import (
    UnconnectedGradients as UnconnectedGradients, gradients as gradients, hessians as hessians,
)
from aioflow.graph.building import get_default_graph as get_default_graph, reset_default_graph as reset_default_graph
from aioflow.graph.graph import Graph as Graph
from aioflow.graph.graph_keys import GraphKeys as GraphKeys
from aioflow.graph.graphdef import GraphDef as GraphDef
from aioflow.graph.import_graph_def import import_graph_def as import_graph_def
from aioflow.graph.indexed_slices import IndexedSlices as IndexedSlices, IndexedSlicesValue as IndexedSlicesValue
from aioflow.kernels.math.accumulation import (
    accumulate_n as accumulate_n, cumulative_logsumexp as cumulative_logsumexp, polyval as polyval,
)
from aioflow.kernels.math.argmax import argmax as argmax, argmin as argmin
from aioflow.kernels.math.arithmetic import (
    add as add, add_n as add_n, divide as divide, floordiv as floordiv, floormod as floormod,
    maximum as maximum, minimum as minimum, mod as mod, multiply as multiply, pow as pow,
    squared_difference as squared_difference, subtract as subtract, truediv as truediv,
)
from aioflow.kernels.array.arrays import (
    diag as diag, diag_part as diag_part, matrix_transpose as matrix_transpose, meshgrid as meshgrid,
    reverse as reverse, tile as tile, transpose as transpose,
)
from aioflow.kernels.control.assertions import (
    Assert as Assert, assert_equal as assert_equal, assert_greater as assert_greater,
    assert_greater_equal as assert_greater_equal, assert_integer as assert_integer, assert_less as assert_less,
    assert_less_equal as assert_less_equal, assert_near as assert_near, assert_negative as assert_negative,
    assert_non_negative as assert_non_negative, assert_non_positive as assert_non_positive,
    assert_none_equal as assert_none_equal, assert_positive as assert_positive, assert_rank as assert_rank,
    assert_rank_at_least as assert_rank_at_least, assert_rank_in as assert_rank_in,
    assert_same_float_dtype as assert_same_float_dtype, assert_scalar as assert_scalar,
    assert_type as assert_type,
)
from aioflow.kernels.math.bessel import (
    bessel_i0 as bessel_i0, bessel_i0e as bessel_i0e, bessel_i1 as bessel_i1, bessel_i1e as bessel_i1e,
)
from aioflow.kernels.math.bits import (
    left_shift as left_shift, population_count as population_count, right_shift as right_shift,
)
from aioflow.kernels.array.space_to_batch import (
    batch_to_space as batch_to_space, batch_to_space_nd as batch_to_space_nd, depth_to_space as depth_to_space,
    space_to_batch as space_to_batch, space_to_batch_nd as space_to_batch_nd, space_to_depth as space_to_depth,
)
from aioflow.kernels.math.casting import (
    bitcast as bitcast, cast as cast, saturate_cast as saturate_cast, to_bfloat16 as to_bfloat16,
    to_double as to_double, to_float as to_float, to_int32 as to_int32, to_int64 as to_int64,
)
from aioflow.kernels.math.comparison import (
    bitwise_and as bitwise_and, bitwise_or as bitwise_or, bitwise_xor as bitwise_xor, equal as equal,
    greater as greater, greater_equal as greater_equal, invert as invert, less as less,
    less_equal as less_equal, logical_and as logical_and, logical_not as logical_not, logical_or as logical_or,
    logical_xor as logical_xor, not_equal as not_equal,
)
from aioflow.kernels.math.complex import angle as angle, complex as complex, conj as conj, imag as imag, real as real
from aioflow.kernels.array.constants import (
    constant as constant, identity as identity, identity_n as identity_n, no_op as no_op,
    placeholder as placeholder, placeholder_with_default as placeholder_with_default,
    prevent_gradient as prevent_gradient, stop_gradient as stop_gradient,
)
from aioflow.kernels.control.lossy import lossy as lossy
from aioflow.kernels.control.control_flow import (
    control_trigger as control_trigger, enter as enter, exit as exit, loop_cond as loop_cond, merge as merge,
    next_iteration as next_iteration, switch as switch,
)
from aioflow.kernels.array.ranges import linspace as linspace, one_hot as one_hot, range as range
from aioflow.kernels.math.cumulative import cumprod as cumprod, cumsum as cumsum
from aioflow.kernels.control.debugging import (
    Print as Print, add_check_numerics_ops as add_check_numerics_ops, brackets as brackets,
    check_numerics as check_numerics, summarize_value as summarize_value,
    verify_tensor_all_finite as verify_tensor_all_finite,
)
from aioflow.kernels.data.csv import decode_csv as decode_csv
from aioflow.kernels.data.json_examples import decode_json_example as decode_json_example
from aioflow.kernels.data.npy import decode_compressed as decode_compressed, decode_npy as decode_npy
from aioflow.kernels.linalg.decompositions import cholesky as cholesky, qr as qr
from aioflow.kernels.linalg.determinants import (
    log_matrix_determinant as log_matrix_determinant, matrix_determinant as matrix_determinant,
)
from aioflow.kernels.linalg.diagonals import (
    matrix_band_part as matrix_band_part, matrix_diag as matrix_diag, matrix_diag_part as matrix_diag_part,
    matrix_set_diag as matrix_set_diag,
)
from aioflow.kernels.math.division import (
    div as div, divide_no_nan as divide_no_nan, floor_div as floor_div, reciprocal_no_nan as reciprocal_no_nan,
    truncatediv as truncatediv, truncatemod as truncatemod, xlogy as xlogy,
)
from aioflow.kernels.math.no_nan import div_no_nan as div_no_nan, multiply_no_nan as multiply_no_nan, xdivy as xdivy
from aioflow.kernels.linalg.einsum import einsum as einsum
from aioflow.kernels.math.erf import erf as erf, erfc as erfc
from aioflow.kernels.linalg.matrix_exponential import matrix_exponential as matrix_exponential
from aioflow.kernels.array.fill import (
    eye as eye, fill as fill, ones as ones, ones_like as ones_like, zeros as zeros, zeros_like as zeros_like,
)
from aioflow.kernels.math.gamma import digamma as digamma, lbeta as lbeta, lgamma as lgamma
from aioflow.kernels.array.gather import gather as gather, scatter_nd as scatter_nd
from aioflow.kernels.math.histograms import (
    bincount as bincount, confusion_matrix as confusion_matrix, histogram_fixed_width as histogram_fixed_width,
    histogram_fixed_width_bins as histogram_fixed_width_bins,
)
from aioflow.kernels.math.incomplete_beta import betainc as betainc
from aioflow.kernels.math.incomplete_gamma import igamma as igamma, igammac as igammac
from aioflow.kernels.array.concat import concat as concat, split as split, stack as stack, unstack as unstack
from aioflow.kernels.linalg.least_squares import matrix_solve_ls as matrix_solve_ls
from aioflow.kernels.linalg.norms import norm as norm, trace as trace
from aioflow.kernels.math.logistic import log_sigmoid as log_sigmoid
from aioflow.kernels.array.mask import boolean_mask as boolean_mask, sequence_mask as sequence_mask
from aioflow.kernels.math.elementwise import (
    abs as abs, acos as acos, acosh as acosh, asin as asin, asinh as asinh, atan as atan, atan2 as atan2,
    atanh as atanh, cos as cos, cosh as cosh, exp as exp, expm1 as expm1, log as log, log1p as log1p,
    negative as negative, reciprocal as reciprocal, rsqrt as rsqrt, sigmoid as sigmoid, sign as sign,
    sin as sin, sinh as sinh, sqrt as sqrt, square as square, tan as tan, tanh as tanh,
)
from aioflow.kernels.linalg.matmul import matmul as matmul
from aioflow.kernels.array.ordering import (
    argsort as argsort, is_non_decreasing as is_non_decreasing,
    is_strictly_increasing as is_strictly_increasing, nth_element as nth_element, sort as sort,
)
from aioflow.kernels.array.pad import pad as pad
from aioflow.kernels.array.partition import (
    batch_gather as batch_gather, broadcast_dynamic_shape as broadcast_dynamic_shape,
    broadcast_static_shape as broadcast_static_shape, dynamic_partition as dynamic_partition,
    dynamic_stitch as dynamic_stitch, ensure_shape as ensure_shape, guarantee_const as guarantee_const,
)
from aioflow.kernels.array.positions import unravel_index as unravel_index
from aioflow.kernels.linalg.products import cross as cross
from aioflow.kernels.control.py_func import numpy_function as numpy_function, py_func as py_func
from aioflow.kernels.math.quantiles import erfinv as erfinv, ndtri as ndtri
from aioflow.kernels.math.random import (
    get_seed as get_seed, multinomial as multinomial, random_normal as random_normal,
    random_shuffle as random_shuffle, random_uniform as random_uniform, set_random_seed as set_random_seed,
    truncated_normal as truncated_normal,
)
from aioflow.kernels.math.random_distributions import (
    random_bernoulli as random_bernoulli, random_gamma as random_gamma, random_poisson as random_poisson,
)
from aioflow.kernels.data.raw import decode_raw as decode_raw
from aioflow.kernels.state.readers import (
    matching_files as matching_files, read_file as read_file, write_file as write_file,
)
from aioflow.kernels.math.reduction import (
    count_nonzero as count_nonzero, reduce_all as reduce_all, reduce_any as reduce_any,
    reduce_logsumexp as reduce_logsumexp, reduce_max as reduce_max, reduce_mean as reduce_mean,
    reduce_min as reduce_min, reduce_prod as reduce_prod, reduce_sum as reduce_sum,
)
from aioflow.kernels.math.rounding import (
    ceil as ceil, clip_by_value as clip_by_value, floor as floor, is_finite as is_finite, is_inf as is_inf,
    is_nan as is_nan, rint as rint, round as round,
)
from aioflow.kernels.array.scatter import (
    tensor_scatter_add as tensor_scatter_add, tensor_scatter_sub as tensor_scatter_sub,
    tensor_scatter_update as tensor_scatter_update,
)
from aioflow.kernels.math.segment_families import (
    segment_max as segment_max, segment_mean as segment_mean, segment_min as segment_min,
    segment_prod as segment_prod,
)
from aioflow.kernels.math.segments import segment_sum as segment_sum, unsorted_segment_sum as unsorted_segment_sum
from aioflow.kernels.array.select import masked as masked, select as select, where as where
from aioflow.kernels.array.sequence import (
    edit_distance as edit_distance, listdiff as listdiff, reverse_sequence as reverse_sequence, roll as roll,
    searchsorted as searchsorted, setdiff1d as setdiff1d, unique_with_counts as unique_with_counts,
)
from aioflow.kernels.sparse.sets import (
    set_difference as set_difference, set_intersection as set_intersection, set_size as set_size,
    set_union as set_union,
)
from aioflow.kernels.array.shapes import (
    broadcast_to as broadcast_to, expand_dims as expand_dims, rank as rank, reshape as reshape, shape as shape,
    shape_n as shape_n, size as size, squeeze as squeeze,
)
from aioflow.kernels.array.slicing import slice as slice, strided_slice as strided_slice
from aioflow.kernels.linalg.solvers import (
    cholesky_solve as cholesky_solve, matrix_inverse as matrix_inverse, matrix_solve as matrix_solve,
    matrix_triangular_solve as matrix_triangular_solve,
)
from aioflow.kernels.array.sorting import invert_permutation as invert_permutation, top_k as top_k, unique as unique
from aioflow.kernels.sparse.sparse_segments import (
    sparse_segment_mean as sparse_segment_mean, sparse_segment_sqrt_n as sparse_segment_sqrt_n,
    sparse_segment_sum as sparse_segment_sum,
)
from aioflow.kernels.linalg.eig_svd import (
    self_adjoint_eig as self_adjoint_eig, self_adjoint_eigvals as self_adjoint_eigvals, svd as svd,
)
from aioflow.kernels.control.stacks import (
    stack_close_v2 as stack_close_v2, stack_pop_v2 as stack_pop_v2, stack_push_v2 as stack_push_v2,
    stack_v2 as stack_v2,
)
from aioflow.kernels.math.statistics import (
    reduce_euclidean_norm as reduce_euclidean_norm, reduce_std as reduce_std,
    reduce_variance as reduce_variance,
)
from aioflow.kernels.text.string_hash import (
    decode_base64 as decode_base64, encode_base64 as encode_base64,
    string_to_hash_bucket as string_to_hash_bucket, string_to_hash_bucket_fast as string_to_hash_bucket_fast,
    string_to_hash_bucket_strong as string_to_hash_bucket_strong,
)
from aioflow.kernels.text.string_split import string_split as string_split
from aioflow.kernels.text.strings import (
    as_string as as_string, reduce_join as reduce_join, regex_full_match as regex_full_match,
    regex_replace as regex_replace, string_join as string_join, string_length as string_length,
    string_lower as string_lower, string_strip as string_strip, string_to_number as string_to_number,
    string_upper as string_upper, substr as substr,
)
from aioflow.kernels.linalg.tensordot import tensordot as tensordot
from aioflow.kernels.math.unsorted_segments import (
    unsorted_segment_max as unsorted_segment_max, unsorted_segment_mean as unsorted_segment_mean,
    unsorted_segment_min as unsorted_segment_min, unsorted_segment_prod as unsorted_segment_prod,
    unsorted_segment_sqrt_n as unsorted_segment_sqrt_n,
)
from aioflow.kernels.math.zeta import polygamma as polygamma, zeta as zeta
from aioflow.library.accumulators import (
    ConditionalAccumulator as ConditionalAccumulator, ConditionalAccumulatorBase as ConditionalAccumulatorBase,
    SparseConditionalAccumulator as SparseConditionalAccumulator,
)
from aioflow.library.arrays import (
    arg_max as arg_max, arg_min as arg_min, gather_nd as gather_nd, is_numeric_tensor as is_numeric_tensor,
    lin_space as lin_space, newaxis as newaxis, parallel_stack as parallel_stack, repeat as repeat,
    reverse_v2 as reverse_v2, to_complex128 as to_complex128, to_complex64 as to_complex64,
    where_v2 as where_v2,
)
from aioflow.library.barrier import Barrier as Barrier
from aioflow.library.branches import cond as cond
from aioflow.library.cases import case as case, switch_case as switch_case
from aioflow.library.clip import (
    clip_by_average_norm as clip_by_average_norm, clip_by_global_norm as clip_by_global_norm,
    clip_by_norm as clip_by_norm, global_norm as global_norm,
)
from aioflow.library.control import (
    add_to_collection as add_to_collection, add_to_collections as add_to_collections,
    colocate_with as colocate_with, container as container, control_dependencies as control_dependencies,
    device as device, get_collection as get_collection, get_collection_ref as get_collection_ref,
    group as group, is_tensor as is_tensor, name_scope as name_scope,
    register_tensor_conversion_function as register_tensor_conversion_function, tuple as tuple,
    with_dependencies as with_dependencies,
)
from aioflow.library.critical_section import CriticalSection as CriticalSection
from aioflow.library.custom_gradient import custom_gradient as custom_gradient
from aioflow.library.queues import (
    FIFOQueue as FIFOQueue, PaddingFIFOQueue as PaddingFIFOQueue, PriorityQueue as PriorityQueue,
    QueueBase as QueueBase, RandomShuffleQueue as RandomShuffleQueue,
)
from aioflow.library.functional import foldl as foldl, foldr as foldr, map_fn as map_fn, scan as scan
from aioflow.library.image import extract_image_patches as extract_image_patches
from aioflow.library.initializers import (
    Initializer as Initializer, constant_initializer as constant_initializer,
    glorot_normal_initializer as glorot_normal_initializer,
    glorot_uniform_initializer as glorot_uniform_initializer, identity_initializer as identity_initializer,
    ones_initializer as ones_initializer, orthogonal_initializer as orthogonal_initializer,
    random_normal_initializer as random_normal_initializer,
    random_uniform_initializer as random_uniform_initializer,
    truncated_normal_initializer as truncated_normal_initializer,
    uniform_unit_scaling_initializer as uniform_unit_scaling_initializer,
    variance_scaling_initializer as variance_scaling_initializer, zeros_initializer as zeros_initializer,
)
from aioflow.library.loops import while_loop as while_loop
from aioflow.library.math import realdiv as realdiv, scalar_mul as scalar_mul
from aioflow.library.nn_windows import required_space_to_batch_paddings as required_space_to_batch_paddings
from aioflow.library.parsing import (
    FixedLenFeature as FixedLenFeature, FixedLenSequenceFeature as FixedLenSequenceFeature,
    SparseFeature as SparseFeature, VarLenFeature as VarLenFeature, parse_example as parse_example,
    parse_single_example as parse_single_example, parse_single_sequence_example as parse_single_sequence_example,
)
from aioflow.library.random import random_crop as random_crop
from aioflow.library.readers import (
    FixedLengthRecordReader as FixedLengthRecordReader, IdentityReader as IdentityReader, ReaderBase as ReaderBase,
    TFRecordReader as TFRecordReader, TextLineReader as TextLineReader, WholeFileReader as WholeFileReader,
)
from aioflow.library.scattering import (
    assign_mul as assign_mul, batch_scatter_update as batch_scatter_update, count_up_to as count_up_to,
    scatter_div as scatter_div,
    scatter_max as scatter_max, scatter_min as scatter_min, scatter_mul as scatter_mul,
    scatter_nd_add as scatter_nd_add, scatter_nd_sub as scatter_nd_sub, scatter_nd_update as scatter_nd_update,
)
from aioflow.library.sparse import (
    convert_to_tensor_or_sparse_tensor as convert_to_tensor_or_sparse_tensor, from_dense as from_dense,
    sparse_add as sparse_add, sparse_concat as sparse_concat, sparse_dense_cwise_div as sparse_dense_cwise_div,
    sparse_dense_cwise_mul as sparse_dense_cwise_mul, sparse_fill_empty_rows as sparse_fill_empty_rows,
    sparse_placeholder as sparse_placeholder, sparse_reduce_sum as sparse_reduce_sum,
    sparse_reorder as sparse_reorder, sparse_reshape as sparse_reshape, sparse_retain as sparse_retain,
    sparse_slice as sparse_slice, sparse_softmax as sparse_softmax,
    sparse_tensor_dense_matmul as sparse_tensor_dense_matmul, sparse_tensor_to_dense as sparse_tensor_to_dense,
    sparse_to_dense as sparse_to_dense, sparse_transpose as sparse_transpose,
)
from aioflow.library.sparse_reduction import (
    sparse_mask as sparse_mask, sparse_matmul as sparse_matmul, sparse_maximum as sparse_maximum,
    sparse_merge as sparse_merge, sparse_minimum as sparse_minimum, sparse_reduce_max as sparse_reduce_max,
    sparse_reduce_max_sparse as sparse_reduce_max_sparse, sparse_reduce_sum_sparse as sparse_reduce_sum_sparse,
    sparse_reset_shape as sparse_reset_shape, sparse_split as sparse_split,
    sparse_to_indicator as sparse_to_indicator,
)
from aioflow.library.sparse_strings import (
    deserialize_many_sparse as deserialize_many_sparse, serialize_many_sparse as serialize_many_sparse,
    serialize_sparse as serialize_sparse,
)
from aioflow.library.staging import MapStagingArea as MapStagingArea, StagingArea as StagingArea
from aioflow.library.state import (
    Template as Template, all_variables as all_variables,
    assert_variables_initialized as assert_variables_initialized, assign as assign, assign_add as assign_add,
    assign_sub as assign_sub, global_variables as global_variables,
    global_variables_initializer as global_variables_initializer,
    initialize_all_variables as initialize_all_variables,
    initialize_local_variables as initialize_local_variables, initialize_variables as initialize_variables,
    is_variable_initialized as is_variable_initialized, local_variables as local_variables,
    local_variables_initializer as local_variables_initializer, make_template as make_template,
    model_variables as model_variables, moving_average_variables as moving_average_variables,
    report_uninitialized_variables as report_uninitialized_variables, scatter_add as scatter_add,
    scatter_sub as scatter_sub, scatter_update as scatter_update, trainable_variables as trainable_variables,
    variables_initializer as variables_initializer,
)
from aioflow.library.tensor_array import TensorArray as TensorArray
from aioflow.library.variable_scope import (
    AUTO_REUSE as AUTO_REUSE, VariableScope as VariableScope, get_local_variable as get_local_variable,
    get_variable as get_variable, get_variable_scope as get_variable_scope, variable_scope as variable_scope,
)
from aioflow.library.variables import (
    Variable as Variable, VariableAggregation as VariableAggregation,
    VariableSynchronization as VariableSynchronization,
)
from aioflow.graph.operation import Operation as Operation, Tensor as Tensor
from aioflow.plan.placement.report import Placement as Placement
from aioflow.porting import (
    Comparison as Comparison, Difference as Difference, ParameterReport as ParameterReport,
    check_learning_off as check_learning_off, compare as compare, parameter_report as parameter_report,
)
from aioflow.session import Session as Session, reset as reset, get_default_session as get_default_session
from aioflow.graph.sparse_tensor import SparseTensor as SparseTensor, SparseTensorValue as SparseTensorValue
from aioflow.tensors.shape import (
    Dimension as Dimension, TensorShape as TensorShape, as_shape as as_shape,
    dimension_value as dimension_value,
)
from aioflow.tracing import NodeStats as NodeStats, RunMetadata as RunMetadata

bool, half, double, sparse = bool_, float16, float64, sparse_names
