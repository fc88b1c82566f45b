"""aioflow: TensorFlow's dataflow system for asyncio. Describe a computation once as a graph, then await its steps.

    import aioflow as af

    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [None, 3])
        y = af.reduce_sum(af.tanh(x))

    async def main(batch):
        async with af.Session(graph=graph) as session:
            return await session.run(y, {x: batch})

Everything public is listed here, and imported when a program first names it. Importing aioflow starts nothing.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow import config as config
from aioflow import dashboard as dashboard
from aioflow import data as data
from aioflow import errors as errors
from aioflow import launch as launch
from aioflow import layers as layers
from aioflow import onnx as onnx
from aioflow import porting as porting
from aioflow import saved_model as saved_model
from aioflow import serving as serving
from aioflow import summary as summary
from aioflow import tensorflow_files as tensorflow_files
from aioflow import train as train
from aioflow import version as version
from aioflow.autodiff.aggregate import AggregationMethod as AggregationMethod
from aioflow.autodiff.gradients import UnconnectedGradients as UnconnectedGradients
from aioflow.autodiff.gradients import gradients as gradients
from aioflow.autodiff.gradients import hessians as hessians
from aioflow.autodiff.rules import NoGradient as NoGradient
from aioflow.autodiff.rules import NotDifferentiable as NotDifferentiable
from aioflow.autodiff.rules import RegisterGradient as RegisterGradient
from aioflow.autodiff.rules import no_gradient as no_gradient
from aioflow.config import Config as Config
from aioflow.config import RunOptions as RunOptions
from aioflow.data.optional import OptionalSpec as OptionalSpec
from aioflow.devices.device import DeviceAttributes as DeviceAttributes
from aioflow.devices.memory import MemoryUse as MemoryUse
from aioflow.errors import OpError as OpError
from aioflow.graph.building import get_default_graph as get_default_graph
from aioflow.graph.building import reset_default_graph as reset_default_graph
from aioflow.graph.convert import convert_to_tensor as convert_to_tensor
from aioflow.graph.device_spec import DeviceSpec as DeviceSpec
from aioflow.graph.graph import Graph as Graph
from aioflow.graph.graph_keys import GraphKeys as GraphKeys
from aioflow.graph.graphdef import GraphDef as GraphDef
from aioflow.graph.import_graph_def import import_graph_def as import_graph_def
from aioflow.graph.indexed_slices import IndexedSlices as IndexedSlices
from aioflow.graph.indexed_slices import IndexedSlicesValue as IndexedSlicesValue
from aioflow.graph.operation import Operation as Operation
from aioflow.graph.operation import Tensor as Tensor
from aioflow.graph.sparse_tensor import SparseTensor as SparseTensor
from aioflow.graph.sparse_tensor import SparseTensorValue as SparseTensorValue
from aioflow.kernels.array.arrays import meshgrid as meshgrid
from aioflow.kernels.array.concat import concat as concat
from aioflow.kernels.array.concat import split as split
from aioflow.kernels.array.concat import stack as stack
from aioflow.kernels.array.concat import unstack as unstack
from aioflow.kernels.array.constants import constant as constant
from aioflow.kernels.array.constants import eye as eye
from aioflow.kernels.array.constants import identity_n as identity_n
from aioflow.kernels.array.constants import ones as ones
from aioflow.kernels.array.constants import ones_like as ones_like
from aioflow.kernels.array.constants import placeholder as placeholder
from aioflow.kernels.array.constants import zeros as zeros
from aioflow.kernels.array.constants import zeros_like as zeros_like
from aioflow.kernels.array.gather import gather as gather
from aioflow.kernels.array.pad import pad as pad
from aioflow.kernels.array.partition import batch_gather as batch_gather
from aioflow.kernels.array.partition import broadcast_static_shape as broadcast_static_shape
from aioflow.kernels.array.partition import guarantee_const as guarantee_const
from aioflow.kernels.array.ranges import one_hot as one_hot
from aioflow.kernels.array.ranges import range as range
from aioflow.kernels.array.select import boolean_mask as boolean_mask
from aioflow.kernels.array.select import sequence_mask as sequence_mask
from aioflow.kernels.array.select import where as where
from aioflow.kernels.array.sequence import edit_distance as edit_distance
from aioflow.kernels.array.sequence import listdiff as listdiff
from aioflow.kernels.array.sequence import reverse_sequence as reverse_sequence
from aioflow.kernels.array.sequence import searchsorted as searchsorted
from aioflow.kernels.array.sequence import setdiff1d as setdiff1d
from aioflow.kernels.array.sequence import unique_with_counts as unique_with_counts
from aioflow.kernels.array.shapes import shape_n as shape_n
from aioflow.kernels.array.slicing import strided_slice as strided_slice
from aioflow.kernels.array.sorting import is_non_decreasing as is_non_decreasing
from aioflow.kernels.array.sorting import is_strictly_increasing as is_strictly_increasing
from aioflow.kernels.array.sorting import top_k as top_k
from aioflow.kernels.array.space_to_batch import batch_to_space as batch_to_space
from aioflow.kernels.array.space_to_batch import batch_to_space_nd as batch_to_space_nd
from aioflow.kernels.array.space_to_batch import space_to_batch as space_to_batch
from aioflow.kernels.array.space_to_batch import space_to_batch_nd as space_to_batch_nd
from aioflow.kernels.control.assertions import assert_equal as assert_equal
from aioflow.kernels.control.assertions import assert_greater as assert_greater
from aioflow.kernels.control.assertions import assert_greater_equal as assert_greater_equal
from aioflow.kernels.control.assertions import assert_integer as assert_integer
from aioflow.kernels.control.assertions import assert_less as assert_less
from aioflow.kernels.control.assertions import assert_less_equal as assert_less_equal
from aioflow.kernels.control.assertions import assert_near as assert_near
from aioflow.kernels.control.assertions import assert_negative as assert_negative
from aioflow.kernels.control.assertions import assert_non_negative as assert_non_negative
from aioflow.kernels.control.assertions import assert_non_positive as assert_non_positive
from aioflow.kernels.control.assertions import assert_none_equal as assert_none_equal
from aioflow.kernels.control.assertions import assert_positive as assert_positive
from aioflow.kernels.control.assertions import assert_rank as assert_rank
from aioflow.kernels.control.assertions import assert_rank_at_least as assert_rank_at_least
from aioflow.kernels.control.assertions import assert_rank_in as assert_rank_in
from aioflow.kernels.control.assertions import assert_same_float_dtype as assert_same_float_dtype
from aioflow.kernels.control.assertions import assert_scalar as assert_scalar
from aioflow.kernels.control.assertions import assert_type as assert_type
from aioflow.kernels.control.debugging import add_check_numerics_ops as add_check_numerics_ops
from aioflow.kernels.control.debugging import brackets as brackets
from aioflow.kernels.control.debugging import summarize_value as summarize_value
from aioflow.kernels.control.debugging import verify_tensor_all_finite as verify_tensor_all_finite
from aioflow.kernels.control.lossy import lossy as lossy
from aioflow.kernels.control.py_func import numpy_function as numpy_function
from aioflow.kernels.control.py_func import py_func as py_func
from aioflow.kernels.data.decoders import decode_raw as decode_raw
from aioflow.kernels.data.node_messages import AttrValue as AttrValue
from aioflow.kernels.data.node_messages import NameAttrList as NameAttrList
from aioflow.kernels.data.node_messages import NodeDef as NodeDef
from aioflow.kernels.data.tensor_messages import make_ndarray as make_ndarray
from aioflow.kernels.data.tensor_messages import make_tensor_proto as make_tensor_proto
from aioflow.kernels.linalg.decompositions import svd as svd
from aioflow.kernels.linalg.least_squares import matrix_solve_ls as matrix_solve_ls
from aioflow.kernels.linalg.norms import norm as norm
from aioflow.kernels.linalg.products import einsum as einsum
from aioflow.kernels.linalg.products import tensordot as tensordot
from aioflow.kernels.linalg.solvers import cholesky_solve as cholesky_solve
from aioflow.kernels.math.arithmetic import add as add
from aioflow.kernels.math.bessel_i import bessel_i0 as bessel_i0
from aioflow.kernels.math.bessel_i import bessel_i1 as bessel_i1
from aioflow.kernels.math.casting import cast as cast
from aioflow.kernels.math.casting import saturate_cast as saturate_cast
from aioflow.kernels.math.casting import to_bfloat16 as to_bfloat16
from aioflow.kernels.math.casting import to_double as to_double
from aioflow.kernels.math.casting import to_float as to_float
from aioflow.kernels.math.casting import to_int32 as to_int32
from aioflow.kernels.math.casting import to_int64 as to_int64
from aioflow.kernels.math.complex import angle as angle
from aioflow.kernels.math.complex import conj as conj
from aioflow.kernels.math.complex import imag as imag
from aioflow.kernels.math.complex import real as real
from aioflow.kernels.math.cumulative import accumulate_n as accumulate_n
from aioflow.kernels.math.cumulative import polyval as polyval
from aioflow.kernels.math.division import div as div
from aioflow.kernels.math.division import log_sigmoid as log_sigmoid
from aioflow.kernels.math.division import reciprocal_no_nan as reciprocal_no_nan
from aioflow.kernels.math.gamma import lbeta as lbeta
from aioflow.kernels.math.histograms import bincount as bincount
from aioflow.kernels.math.histograms import confusion_matrix as confusion_matrix
from aioflow.kernels.math.random import get_seed as get_seed
from aioflow.kernels.math.random import multinomial as multinomial
from aioflow.kernels.math.random import random_normal as random_normal
from aioflow.kernels.math.random import random_shuffle as random_shuffle
from aioflow.kernels.math.random import random_uniform as random_uniform
from aioflow.kernels.math.random import set_random_seed as set_random_seed
from aioflow.kernels.math.random import truncated_normal as truncated_normal
from aioflow.kernels.math.random_distributions import random_bernoulli as random_bernoulli
from aioflow.kernels.math.random_distributions import random_gamma as random_gamma
from aioflow.kernels.math.random_distributions import random_poisson as random_poisson
from aioflow.kernels.math.rounding import clip_by_value as clip_by_value
from aioflow.kernels.math.rounding import round as round
from aioflow.kernels.math.unsorted_segments import unsorted_segment_mean as unsorted_segment_mean
from aioflow.kernels.math.unsorted_segments import unsorted_segment_sqrt_n as unsorted_segment_sqrt_n
from aioflow.kernels.math.variance import reduce_std as reduce_std
from aioflow.kernels.math.variance import reduce_variance as reduce_variance
from aioflow.kernels.nn.patches import extract_image_patches as extract_image_patches
from aioflow.kernels.sparse.sets import set_difference as set_difference
from aioflow.kernels.sparse.sets import set_intersection as set_intersection
from aioflow.kernels.sparse.sets import set_size as set_size
from aioflow.kernels.sparse.sets import set_union as set_union
from aioflow.kernels.sparse.sparse_segments import sparse_segment_mean as sparse_segment_mean
from aioflow.kernels.sparse.sparse_segments import sparse_segment_sqrt_n as sparse_segment_sqrt_n
from aioflow.kernels.sparse.sparse_segments import sparse_segment_sum as sparse_segment_sum
from aioflow.kernels.text.splitting import string_split as string_split
from aioflow.kernels.text.strings import reduce_join as reduce_join
from aioflow.layers import activations as activations
from aioflow.layers import callbacks as callbacks
from aioflow.layers import constraints as constraints
from aioflow.layers import distribute as distribute
from aioflow.layers import regularizers as regularizers
from aioflow.layers.model import Input as Input
from aioflow.layers.model import Model as Model
from aioflow.layers.model import Sequential as Sequential
from aioflow.library import audio as audio
from aioflow.library import bitwise as bitwise
from aioflow.library import collectives as collectives
from aioflow.library import debugging as debugging
from aioflow.library import distributions as distributions
from aioflow.library import dtype_names as dtypes
from aioflow.library import gfile as gfile
from aioflow.library import graph_util as graph_util
from aioflow.library import image as image
from aioflow.library import initializers as initializers
from aioflow.library import io as io
from aioflow.library import linalg as linalg
from aioflow.library import logging as logging
from aioflow.library import lookup as lookup
from aioflow.library import losses as losses
from aioflow.library import manip as manip
from aioflow.library import math as math
from aioflow.library import metrics as metrics
from aioflow.library import nn as nn
from aioflow.library import python_io as python_io
from aioflow.library import quantization as quantization
from aioflow.library import queue_names as queue
from aioflow.library import ragged as ragged
from aioflow.library import random as random
from aioflow.library import resource_loader as resource_loader
from aioflow.library import sets as sets
from aioflow.library import signal as signal
from aioflow.library import sparse_names as sparse
from aioflow.library import sparse_names as sparse_names
from aioflow.library import spectral as spectral
from aioflow.library import strings as strings
from aioflow.library import weights_broadcast as weights_broadcast
from aioflow.library.accumulators import Barrier as Barrier
from aioflow.library.accumulators import ConditionalAccumulator as ConditionalAccumulator
from aioflow.library.accumulators import ConditionalAccumulatorBase as ConditionalAccumulatorBase
from aioflow.library.accumulators import SparseConditionalAccumulator as SparseConditionalAccumulator
from aioflow.library.any_convolution import conv as conv
from aioflow.library.approximate_top_k import approx_top_k as approx_top_k
from aioflow.library.arrays import arg_max as arg_max
from aioflow.library.arrays import arg_min as arg_min
from aioflow.library.arrays import gather_nd as gather_nd
from aioflow.library.arrays import is_numeric_tensor as is_numeric_tensor
from aioflow.library.arrays import newaxis as newaxis
from aioflow.library.arrays import parallel_stack as parallel_stack
from aioflow.library.arrays import repeat as repeat
from aioflow.library.arrays import scalar_mul as scalar_mul
from aioflow.library.arrays import to_complex128 as to_complex128
from aioflow.library.arrays import to_complex64 as to_complex64
from aioflow.library.arrays import where_v2 as where_v2
from aioflow.library.batching import BatchQueue as BatchQueue
from aioflow.library.batching import batch_function as batch_function
from aioflow.library.batching import nondifferentiable_batch_function as nondifferentiable_batch_function
from aioflow.library.branches import case as case
from aioflow.library.branches import cond as cond
from aioflow.library.branches import switch_case as switch_case
from aioflow.library.clip import clip_by_average_norm as clip_by_average_norm
from aioflow.library.clip import clip_by_global_norm as clip_by_global_norm
from aioflow.library.clip import clip_by_norm as clip_by_norm
from aioflow.library.clip import global_norm as global_norm
from aioflow.library.control import add_to_collection as add_to_collection
from aioflow.library.control import add_to_collections as add_to_collections
from aioflow.library.control import colocate_with as colocate_with
from aioflow.library.control import container as container
from aioflow.library.control import control_dependencies as control_dependencies
from aioflow.library.control import device as device
from aioflow.library.control import get_collection as get_collection
from aioflow.library.control import get_collection_ref as get_collection_ref
from aioflow.library.control import group as group
from aioflow.library.control import init_scope as init_scope
from aioflow.library.control import is_tensor as is_tensor
from aioflow.library.control import name_scope as name_scope
from aioflow.library.control import op_scope as op_scope
from aioflow.library.control import register_tensor_conversion_function as register_tensor_conversion_function
from aioflow.library.control import tuple as tuple
from aioflow.library.control import with_dependencies as with_dependencies
from aioflow.library.convolution_gradients import conv2d_backprop_filter_v2 as conv2d_backprop_filter_v2
from aioflow.library.convolution_gradients import conv2d_backprop_input_v2 as conv2d_backprop_input_v2
from aioflow.library.critical_section import CriticalSection as CriticalSection
from aioflow.library.custom_gradient import custom_gradient as custom_gradient
from aioflow.library.custom_gradient import grad_pass_through as grad_pass_through
from aioflow.library.custom_gradient import recompute_grad as recompute_grad
from aioflow.library.fake_quantisation import fake_quant_with_min_max_args as fake_quant_with_min_max_args
from aioflow.library.fake_quantisation import fake_quant_with_min_max_args_gradient as fake_quant_with_min_max_args_gradient
from aioflow.library.fake_quantisation import fake_quant_with_min_max_vars as fake_quant_with_min_max_vars
from aioflow.library.fake_quantisation import fake_quant_with_min_max_vars_gradient as fake_quant_with_min_max_vars_gradient
from aioflow.library.fake_quantisation import fake_quant_with_min_max_vars_per_channel as fake_quant_with_min_max_vars_per_channel
from aioflow.library.fake_quantisation import fake_quant_with_min_max_vars_per_channel_gradient as fake_quant_with_min_max_vars_per_channel_gradient
from aioflow.library.fourier import fft as fft
from aioflow.library.fourier import fft2d as fft2d
from aioflow.library.fourier import fft3d as fft3d
from aioflow.library.fourier import fftnd as fftnd
from aioflow.library.fourier import ifft as ifft
from aioflow.library.fourier import ifft2d as ifft2d
from aioflow.library.fourier import ifft3d as ifft3d
from aioflow.library.fourier import ifftnd as ifftnd
from aioflow.library.fourier import irfftnd as irfftnd
from aioflow.library.fourier import rfftnd as rfftnd
from aioflow.library.functional import foldl as foldl
from aioflow.library.functional import foldr as foldr
from aioflow.library.functional import map_fn as map_fn
from aioflow.library.functional import scan as scan
from aioflow.library.initializers import Initializer as Initializer
from aioflow.library.initializers import constant_initializer as constant_initializer
from aioflow.library.initializers import glorot_normal_initializer as glorot_normal_initializer
from aioflow.library.initializers import glorot_uniform_initializer as glorot_uniform_initializer
from aioflow.library.initializers import identity_initializer as identity_initializer
from aioflow.library.initializers import ones_initializer as ones_initializer
from aioflow.library.initializers import orthogonal_initializer as orthogonal_initializer
from aioflow.library.initializers import random_normal_initializer as random_normal_initializer
from aioflow.library.initializers import random_uniform_initializer as random_uniform_initializer
from aioflow.library.initializers import truncated_normal_initializer as truncated_normal_initializer
from aioflow.library.initializers import uniform_unit_scaling_initializer as uniform_unit_scaling_initializer
from aioflow.library.initializers import variance_scaling_initializer as variance_scaling_initializer
from aioflow.library.initializers import zeros_initializer as zeros_initializer
from aioflow.library.known_values import assert_proper_iterable as assert_proper_iterable
from aioflow.library.known_values import convert_to_tensor_or_indexed_slices as convert_to_tensor_or_indexed_slices
from aioflow.library.known_values import get_static_value as get_static_value
from aioflow.library.known_values import is_symbolic_tensor as is_symbolic_tensor
from aioflow.library.logging import get_logger as get_logger
from aioflow.library.loops import while_loop as while_loop
from aioflow.library.module import Module as Module
from aioflow.library.parsing import FixedLenFeature as FixedLenFeature
from aioflow.library.parsing import FixedLenSequenceFeature as FixedLenSequenceFeature
from aioflow.library.parsing import SparseFeature as SparseFeature
from aioflow.library.parsing import VarLenFeature as VarLenFeature
from aioflow.library.parsing import parse_example as parse_example
from aioflow.library.parsing import parse_single_example as parse_single_example
from aioflow.library.parsing import parse_single_sequence_example as parse_single_sequence_example
from aioflow.library.partitioned_creation import create_partitioned_variables as create_partitioned_variables
from aioflow.library.partitioners import fixed_size_partitioner as fixed_size_partitioner
from aioflow.library.partitioners import min_max_variable_partitioner as min_max_variable_partitioner
from aioflow.library.partitioners import variable_axis_size_partitioner as variable_axis_size_partitioner
from aioflow.library.printing import print as print
from aioflow.library.py_function import py_function as py_function
from aioflow.library.quantised_numbers import dequantize as dequantize
from aioflow.library.quantised_numbers import quantize as quantize
from aioflow.library.quantised_numbers import quantize_v2 as quantize_v2
from aioflow.library.quantised_numbers import quantized_concat as quantized_concat
from aioflow.library.queues import FIFOQueue as FIFOQueue
from aioflow.library.queues import PaddingFIFOQueue as PaddingFIFOQueue
from aioflow.library.queues import PriorityQueue as PriorityQueue
from aioflow.library.queues import QueueBase as QueueBase
from aioflow.library.queues import RandomShuffleQueue as RandomShuffleQueue
from aioflow.library.ragged.empty_rows import ragged_fill_empty_rows as ragged_fill_empty_rows
from aioflow.library.ragged.empty_rows import ragged_fill_empty_rows_grad as ragged_fill_empty_rows_grad
from aioflow.library.ragged.spec import RaggedTensorSpec as RaggedTensorSpec
from aioflow.library.ragged.tensor import RaggedTensor as RaggedTensor
from aioflow.library.random import random_crop as random_crop
from aioflow.library.readers import FixedLengthRecordReader as FixedLengthRecordReader
from aioflow.library.readers import IdentityReader as IdentityReader
from aioflow.library.readers import LMDBReader as LMDBReader
from aioflow.library.readers import ReaderBase as ReaderBase
from aioflow.library.readers import TFRecordReader as TFRecordReader
from aioflow.library.readers import TextLineReader as TextLineReader
from aioflow.library.readers import WholeFileReader as WholeFileReader
from aioflow.library.session_tensors import TensorHandle as TensorHandle
from aioflow.library.session_tensors import delete_session_tensor as delete_session_tensor
from aioflow.library.session_tensors import get_session_handle as get_session_handle
from aioflow.library.session_tensors import get_session_tensor as get_session_tensor
from aioflow.library.space_to_batch import required_space_to_batch_paddings as required_space_to_batch_paddings
from aioflow.library.sparse import convert_to_tensor_or_sparse_tensor as convert_to_tensor_or_sparse_tensor
from aioflow.library.sparse import deserialize_many_sparse as deserialize_many_sparse
from aioflow.library.sparse import from_dense as from_dense
from aioflow.library.sparse import serialize_many_sparse as serialize_many_sparse
from aioflow.library.sparse import serialize_sparse as serialize_sparse
from aioflow.library.sparse import sparse_add as sparse_add
from aioflow.library.sparse import sparse_concat as sparse_concat
from aioflow.library.sparse import sparse_dense_cwise_div as sparse_dense_cwise_div
from aioflow.library.sparse import sparse_dense_cwise_mul as sparse_dense_cwise_mul
from aioflow.library.sparse import sparse_fill_empty_rows as sparse_fill_empty_rows
from aioflow.library.sparse import sparse_placeholder as sparse_placeholder
from aioflow.library.sparse import sparse_reduce_sum as sparse_reduce_sum
from aioflow.library.sparse import sparse_reorder as sparse_reorder
from aioflow.library.sparse import sparse_reshape as sparse_reshape
from aioflow.library.sparse import sparse_retain as sparse_retain
from aioflow.library.sparse import sparse_slice as sparse_slice
from aioflow.library.sparse import sparse_softmax as sparse_softmax
from aioflow.library.sparse import sparse_tensor_dense_matmul as sparse_tensor_dense_matmul
from aioflow.library.sparse import sparse_tensor_to_dense as sparse_tensor_to_dense
from aioflow.library.sparse import sparse_transpose as sparse_transpose
from aioflow.library.sparse_reduction import sparse_mask as sparse_mask
from aioflow.library.sparse_reduction import sparse_matmul as sparse_matmul
from aioflow.library.sparse_reduction import sparse_maximum as sparse_maximum
from aioflow.library.sparse_reduction import sparse_merge as sparse_merge
from aioflow.library.sparse_reduction import sparse_minimum as sparse_minimum
from aioflow.library.sparse_reduction import sparse_reduce_max as sparse_reduce_max
from aioflow.library.sparse_reduction import sparse_reduce_max_sparse as sparse_reduce_max_sparse
from aioflow.library.sparse_reduction import sparse_reduce_sum_sparse as sparse_reduce_sum_sparse
from aioflow.library.sparse_reduction import sparse_reset_shape as sparse_reset_shape
from aioflow.library.sparse_reduction import sparse_split as sparse_split
from aioflow.library.sparse_reduction import sparse_to_indicator as sparse_to_indicator
from aioflow.library.staging import MapStagingArea as MapStagingArea
from aioflow.library.staging import StagingArea as StagingArea
from aioflow.library.state import all_variables as all_variables
from aioflow.library.state import assert_variables_initialized as assert_variables_initialized
from aioflow.library.state import assign as assign
from aioflow.library.state import assign_add as assign_add
from aioflow.library.state import assign_mul as assign_mul
from aioflow.library.state import assign_sub as assign_sub
from aioflow.library.state import batch_scatter_update as batch_scatter_update
from aioflow.library.state import count_up_to as count_up_to
from aioflow.library.state import global_variables as global_variables
from aioflow.library.state import global_variables_initializer as global_variables_initializer
from aioflow.library.state import initialize_all_variables as initialize_all_variables
from aioflow.library.state import initialize_local_variables as initialize_local_variables
from aioflow.library.state import initialize_variables as initialize_variables
from aioflow.library.state import is_variable_initialized as is_variable_initialized
from aioflow.library.state import local_variables as local_variables
from aioflow.library.state import local_variables_initializer as local_variables_initializer
from aioflow.library.state import model_variables as model_variables
from aioflow.library.state import moving_average_variables as moving_average_variables
from aioflow.library.state import report_uninitialized_variables as report_uninitialized_variables
from aioflow.library.state import scatter_add as scatter_add
from aioflow.library.state import scatter_div as scatter_div
from aioflow.library.state import scatter_max as scatter_max
from aioflow.library.state import scatter_min as scatter_min
from aioflow.library.state import scatter_mul as scatter_mul
from aioflow.library.state import scatter_nd_add as scatter_nd_add
from aioflow.library.state import scatter_nd_sub as scatter_nd_sub
from aioflow.library.state import scatter_nd_update as scatter_nd_update
from aioflow.library.state import scatter_sub as scatter_sub
from aioflow.library.state import scatter_update as scatter_update
from aioflow.library.state import trainable_variables as trainable_variables
from aioflow.library.state import variables_initializer as variables_initializer
from aioflow.library.switches import control_flow_v2_enabled as control_flow_v2_enabled
from aioflow.library.switches import disable_control_flow_v2 as disable_control_flow_v2
from aioflow.library.switches import disable_eager_execution as disable_eager_execution
from aioflow.library.switches import disable_resource_variables as disable_resource_variables
from aioflow.library.switches import disable_tensor_equality as disable_tensor_equality
from aioflow.library.switches import disable_v2_behavior as disable_v2_behavior
from aioflow.library.switches import disable_v2_tensorshape as disable_v2_tensorshape
from aioflow.library.switches import enable_control_flow_v2 as enable_control_flow_v2
from aioflow.library.switches import enable_resource_variables as enable_resource_variables
from aioflow.library.switches import executing_eagerly as executing_eagerly
from aioflow.library.switches import executing_eagerly_outside_functions as executing_eagerly_outside_functions
from aioflow.library.switches import resource_variables_enabled as resource_variables_enabled
from aioflow.library.table_initializers import initialize_all_tables as initialize_all_tables
from aioflow.library.table_initializers import tables_initializer as tables_initializer
from aioflow.library.templates import Template as Template
from aioflow.library.templates import make_template as make_template
from aioflow.library.tensor_array import TensorArray as TensorArray
from aioflow.library.type_specs import IndexedSlicesSpec as IndexedSlicesSpec
from aioflow.library.type_specs import NoneTensorSpec as NoneTensorSpec
from aioflow.library.type_specs import SparseTensorSpec as SparseTensorSpec
from aioflow.library.type_specs import TensorArraySpec as TensorArraySpec
from aioflow.library.type_specs import TensorSpec as TensorSpec
from aioflow.library.type_specs import TypeSpec as TypeSpec
from aioflow.library.type_specs import type_spec_from_value as type_spec_from_value
from aioflow.library.variable_scope import AUTO_REUSE as AUTO_REUSE
from aioflow.library.variable_scope import VariableScope as VariableScope
from aioflow.library.variable_scope import get_local_variable as get_local_variable
from aioflow.library.variable_scope import get_variable as get_variable
from aioflow.library.variable_scope import get_variable_scope as get_variable_scope
from aioflow.library.variable_scope import no_regularizer as no_regularizer
from aioflow.library.variable_scope import variable_op_scope as variable_op_scope
from aioflow.library.variable_scope import variable_scope as variable_scope
from aioflow.library.variables import Variable as Variable
from aioflow.library.variables import VariableAggregation as VariableAggregation
from aioflow.library.variables import VariableSynchronization as VariableSynchronization
from aioflow.library.variables import variable_creator_scope as variable_creator_scope
from aioflow.library.vectorized_map import vectorized_map as vectorized_map
from aioflow.library.volume_patches import extract_volume_patches as extract_volume_patches
from aioflow.net.config_messages import ConfigProto as ConfigProto
from aioflow.net.config_messages import GPUOptions as GPUOptions
from aioflow.net.config_messages import GraphOptions as GraphOptions
from aioflow.net.config_messages import OptimizerOptions as OptimizerOptions
from aioflow.plan.cost_model import CostModel as CostModel
from aioflow.plan.cost_model import Link as Link
from aioflow.plan.op_cost import Rates as Rates
from aioflow.plan.placement.report import Placement as Placement
from aioflow.porting.comparison import Comparison as Comparison
from aioflow.porting.comparison import Difference as Difference
from aioflow.porting.comparison import compare as compare
from aioflow.porting.learning_off import check_learning_off as check_learning_off
from aioflow.porting.parameters import ParameterReport as ParameterReport
from aioflow.porting.parameters import parameter_report as parameter_report
from aioflow.saved_model.meta_graph import MetaGraphDef as MetaGraphDef
from aioflow.saved_model.tensor_info import TensorInfo as TensorInfo
from aioflow.session import Session as Session
from aioflow.session import get_default_session as get_default_session
from aioflow.session.request_batcher import BatchingStatistics as BatchingStatistics
from aioflow.session.request_batcher import RequestBatcher as RequestBatcher
from aioflow.session.reset import reset as reset
from aioflow.summary.messages import Event as Event
from aioflow.summary.messages import HistogramProto as HistogramProto
from aioflow.summary.messages import LogMessage as LogMessage
from aioflow.summary.messages import SessionLog as SessionLog
from aioflow.summary.messages import Summary as Summary
from aioflow.summary.messages import SummaryMetadata as SummaryMetadata
from aioflow.tensors import nest as nest
from aioflow.tensors.codecs import Saving as Saving
from aioflow.tensors.dtypes import DType as DType
from aioflow.tensors.dtypes import QUANTIZED_DTYPES as QUANTIZED_DTYPES
from aioflow.tensors.dtypes import as_dtype as as_dtype
from aioflow.tensors.dtypes import bfloat16 as bfloat16
from aioflow.tensors.dtypes import bool_ as bool
from aioflow.tensors.dtypes import bool_ as bool_
from aioflow.tensors.dtypes import complex128 as complex128
from aioflow.tensors.dtypes import complex64 as complex64
from aioflow.tensors.dtypes import float16 as float16
from aioflow.tensors.dtypes import float16 as half
from aioflow.tensors.dtypes import float32 as float32
from aioflow.tensors.dtypes import float4_e2m1fn as float4_e2m1fn
from aioflow.tensors.dtypes import float64 as double
from aioflow.tensors.dtypes import float64 as float64
from aioflow.tensors.dtypes import float8_e4m3fn as float8_e4m3fn
from aioflow.tensors.dtypes import float8_e4m3fnuz as float8_e4m3fnuz
from aioflow.tensors.dtypes import float8_e5m2 as float8_e5m2
from aioflow.tensors.dtypes import float8_e5m2fnuz as float8_e5m2fnuz
from aioflow.tensors.dtypes import float8_e8m0fnu as float8_e8m0fnu
from aioflow.tensors.dtypes import int16 as int16
from aioflow.tensors.dtypes import int16 as qint16
from aioflow.tensors.dtypes import int2 as int2
from aioflow.tensors.dtypes import int32 as int32
from aioflow.tensors.dtypes import int32 as qint32
from aioflow.tensors.dtypes import int4 as int4
from aioflow.tensors.dtypes import int64 as int64
from aioflow.tensors.dtypes import int8 as int8
from aioflow.tensors.dtypes import int8 as qint8
from aioflow.tensors.dtypes import resource as resource
from aioflow.tensors.dtypes import string as string
from aioflow.tensors.dtypes import uint16 as quint16
from aioflow.tensors.dtypes import uint16 as uint16
from aioflow.tensors.dtypes import uint2 as uint2
from aioflow.tensors.dtypes import uint32 as uint32
from aioflow.tensors.dtypes import uint4 as uint4
from aioflow.tensors.dtypes import uint64 as uint64
from aioflow.tensors.dtypes import uint8 as quint8
from aioflow.tensors.dtypes import uint8 as uint8
from aioflow.tensors.shape import Dimension as Dimension
from aioflow.tensors.shape import TensorShape as TensorShape
from aioflow.tensors.shape import as_shape as as_shape
from aioflow.tensors.shape import dimension_at_index as dimension_at_index
from aioflow.tensors.shape import dimension_value as dimension_value
from aioflow.testing import tensorflow_names as test
from aioflow.tracing import NodeStats as NodeStats
from aioflow.tracing import RunMetadata as RunMetadata
from aioflow.version import COMPILER_VERSION as COMPILER_VERSION
from aioflow.version import GIT_VERSION as GIT_VERSION
from aioflow.version import GRAPH_DEF_VERSION as GRAPH_DEF_VERSION
from aioflow.version import GRAPH_DEF_VERSION_MIN_CONSUMER as GRAPH_DEF_VERSION_MIN_CONSUMER
from aioflow.version import GRAPH_DEF_VERSION_MIN_PRODUCER as GRAPH_DEF_VERSION_MIN_PRODUCER
from aioflow.version import VERSION as VERSION
from aioflow.version import __version__ as __version__

__all__ = ["AUTO_REUSE", "AggregationMethod", "Assert", "AttrValue", "Barrier", "BatchQueue", "BatchingStatistics",
    "COMPILER_VERSION", "Comparison", "ConditionalAccumulator", "ConditionalAccumulatorBase", "Config", "ConfigProto",
    "CostModel", "CriticalSection", "DType", "DeviceAttributes", "DeviceSpec", "Difference", "Dimension", "Event",
    "FIFOQueue", "FixedLenFeature", "FixedLenSequenceFeature", "FixedLengthRecordReader", "GIT_VERSION", "GPUOptions",
    "GRAPH_DEF_VERSION", "GRAPH_DEF_VERSION_MIN_CONSUMER", "GRAPH_DEF_VERSION_MIN_PRODUCER", "Graph", "GraphDef",
    "GraphKeys", "GraphOptions", "HistogramProto", "IdentityReader", "IndexedSlices", "IndexedSlicesSpec",
    "IndexedSlicesValue", "Initializer", "Input", "LMDBReader", "Link", "LogMessage", "MapStagingArea", "MemoryUse",
    "MetaGraphDef", "Model", "Module", "NameAttrList", "NoGradient", "NodeDef", "NodeStats", "NoneTensorSpec",
    "NotDifferentiable", "OpError", "Operation", "OptimizerOptions", "OptionalSpec", "PaddingFIFOQueue",
    "ParameterReport", "Placement", "Print", "PriorityQueue", "QUANTIZED_DTYPES", "QueueBase", "RaggedTensor",
    "RaggedTensorSpec", "RandomShuffleQueue", "Rates", "ReaderBase", "RegisterGradient", "RequestBatcher",
    "RunMetadata", "RunOptions", "Saving", "Sequential", "Session", "SessionLog", "SparseConditionalAccumulator",
    "SparseFeature", "SparseTensor", "SparseTensorSpec", "SparseTensorValue", "StagingArea", "Summary",
    "SummaryMetadata", "TFRecordReader", "Template", "Tensor", "TensorArray", "TensorArraySpec", "TensorHandle",
    "TensorInfo", "TensorShape", "TensorSpec", "TextLineReader", "TypeSpec", "UnconnectedGradients", "VERSION",
    "VarLenFeature", "Variable", "VariableAggregation", "VariableScope", "VariableSynchronization", "WholeFileReader",
    "__version__", "abs", "accumulate_n", "acos", "acosh", "activations", "add", "add_check_numerics_ops", "add_n",
    "add_to_collection", "add_to_collections", "all_variables", "angle", "approx_top_k", "arg_max", "arg_min", "argmax",
    "argmin", "argsort", "as_dtype", "as_shape", "as_string", "asin", "asinh", "assert_equal", "assert_greater",
    "assert_greater_equal", "assert_integer", "assert_less", "assert_less_equal", "assert_near", "assert_negative",
    "assert_non_negative", "assert_non_positive", "assert_none_equal", "assert_positive", "assert_proper_iterable",
    "assert_rank", "assert_rank_at_least", "assert_rank_in", "assert_same_float_dtype", "assert_scalar", "assert_type",
    "assert_variables_initialized", "assign", "assign_add", "assign_mul", "assign_sub", "atan", "atan2", "atanh",
    "audio", "batch_function", "batch_gather", "batch_scatter_update", "batch_to_space", "batch_to_space_nd",
    "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "betainc", "bfloat16", "bincount", "bitcast", "bitwise",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bool", "bool_", "boolean_mask", "brackets", "broadcast_dynamic_shape",
    "broadcast_static_shape", "broadcast_to", "callbacks", "case", "cast", "ceil", "check_learning_off",
    "check_numerics", "cholesky", "cholesky_solve", "clip_by_average_norm", "clip_by_global_norm", "clip_by_norm",
    "clip_by_value", "collectives", "colocate_with", "compare", "complex", "complex128", "complex64", "concat", "cond",
    "config", "confusion_matrix", "conj", "constant", "constant_initializer", "constraints", "container",
    "control_dependencies", "control_flow_v2_enabled", "control_trigger", "conv", "conv2d_backprop_filter_v2",
    "conv2d_backprop_input_v2", "convert_to_tensor", "convert_to_tensor_or_indexed_slices",
    "convert_to_tensor_or_sparse_tensor", "cos", "cosh", "count_nonzero", "count_up_to", "create_partitioned_variables",
    "cross", "cumprod", "cumsum", "cumulative_logsumexp", "custom_gradient", "dashboard", "data", "debugging",
    "decode_base64", "decode_compressed", "decode_csv", "decode_json_example", "decode_npy", "decode_raw",
    "delete_session_tensor", "depth_to_space", "dequantize", "deserialize_many_sparse", "device", "diag", "diag_part",
    "digamma", "dimension_at_index", "dimension_value", "disable_control_flow_v2", "disable_eager_execution",
    "disable_resource_variables", "disable_tensor_equality", "disable_v2_behavior", "disable_v2_tensorshape",
    "distribute", "distributions", "div", "div_no_nan", "divide", "divide_no_nan", "double", "dtypes",
    "dynamic_partition", "dynamic_stitch", "edit_distance", "einsum", "enable_control_flow_v2",
    "enable_resource_variables", "encode_base64", "ensure_shape", "enter", "equal", "erf", "erfc", "erfinv", "errors",
    "executing_eagerly", "executing_eagerly_outside_functions", "exit", "exp", "expand_dims", "expm1",
    "extract_image_patches", "extract_volume_patches", "eye", "fake_quant_with_min_max_args",
    "fake_quant_with_min_max_args_gradient", "fake_quant_with_min_max_vars", "fake_quant_with_min_max_vars_gradient",
    "fake_quant_with_min_max_vars_per_channel", "fake_quant_with_min_max_vars_per_channel_gradient", "fft", "fft2d",
    "fft3d", "fftnd", "fill", "fingerprint", "fixed_size_partitioner", "float16", "float32", "float4_e2m1fn", "float64",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "floor", "floor_div",
    "floordiv", "floormod", "foldl", "foldr", "from_dense", "gather", "gather_nd", "get_collection",
    "get_collection_ref", "get_default_graph", "get_default_session", "get_local_variable", "get_logger", "get_seed",
    "get_session_handle", "get_session_tensor", "get_static_value", "get_variable", "get_variable_scope", "gfile",
    "global_norm", "global_variables", "global_variables_initializer", "glorot_normal_initializer",
    "glorot_uniform_initializer", "grad_pass_through", "gradients", "graph_util", "greater", "greater_equal", "group",
    "guarantee_const", "half", "hessians", "histogram_fixed_width", "histogram_fixed_width_bins", "identity",
    "identity_initializer", "identity_n", "ifft", "ifft2d", "ifft3d", "ifftnd", "igamma", "igammac", "imag", "image",
    "import_graph_def", "init_scope", "initialize_all_tables", "initialize_all_variables", "initialize_local_variables",
    "initialize_variables", "initializers", "int16", "int2", "int32", "int4", "int64", "int8", "invert",
    "invert_permutation", "io", "irfftnd", "is_finite", "is_inf", "is_nan", "is_non_decreasing", "is_numeric_tensor",
    "is_strictly_increasing", "is_symbolic_tensor", "is_tensor", "is_variable_initialized", "launch", "layers", "lbeta",
    "left_shift", "less", "less_equal", "lgamma", "lin_space", "linalg", "linspace", "listdiff", "local_variables",
    "local_variables_initializer", "log", "log1p", "log_matrix_determinant", "log_sigmoid", "logging", "logical_and",
    "logical_not", "logical_or", "logical_xor", "lookup", "loop_cond", "losses", "lossy", "make_ndarray",
    "make_template", "make_tensor_proto", "manip", "map_fn", "masked", "matching_files", "math", "matmul",
    "matrix_band_part", "matrix_determinant", "matrix_diag", "matrix_diag_part", "matrix_exponential", "matrix_inverse",
    "matrix_set_diag", "matrix_solve", "matrix_solve_ls", "matrix_square_root", "matrix_transpose",
    "matrix_triangular_solve", "maximum", "merge", "meshgrid", "metrics", "min_max_variable_partitioner", "minimum",
    "mod", "model_variables", "moving_average_variables", "multinomial", "multiply", "multiply_no_nan", "name_scope",
    "ndtri", "negative", "nest", "newaxis", "next_iteration", "nn", "no_gradient", "no_op", "no_regularizer",
    "nondifferentiable_batch_function", "norm", "not_equal", "nth_element", "numpy_function", "one_hot", "ones",
    "ones_initializer", "ones_like", "onnx", "op_scope", "orthogonal_initializer", "pad", "parallel_stack",
    "parameter_report", "parse_example", "parse_single_example", "parse_single_sequence_example", "parse_tensor",
    "placeholder", "placeholder_with_default", "polygamma", "polyval", "population_count", "porting", "pow",
    "prevent_gradient", "print", "py_func", "py_function", "python_io", "qint16", "qint32", "qint8", "qr",
    "quantization", "quantize", "quantize_v2", "quantized_concat", "queue", "quint16", "quint8", "ragged",
    "ragged_fill_empty_rows", "ragged_fill_empty_rows_grad", "random", "random_bernoulli", "random_crop",
    "random_gamma", "random_index_shuffle", "random_normal", "random_normal_initializer", "random_poisson",
    "random_shuffle", "random_uniform", "random_uniform_initializer", "range", "rank", "read_file", "real", "realdiv",
    "reciprocal", "reciprocal_no_nan", "recompute_grad", "reduce_all", "reduce_any", "reduce_euclidean_norm",
    "reduce_join", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_std",
    "reduce_sum", "reduce_variance", "regex_full_match", "regex_replace", "register_tensor_conversion_function",
    "regularizers", "repeat", "report_uninitialized_variables", "required_space_to_batch_paddings", "reset",
    "reset_default_graph", "reshape", "resource", "resource_loader", "resource_variables_enabled", "reverse",
    "reverse_sequence", "reverse_v2", "rfftnd", "right_shift", "rint", "roll", "round", "rsqrt", "saturate_cast",
    "saved_model", "scalar_mul", "scan", "scatter_add", "scatter_div", "scatter_max", "scatter_min", "scatter_mul",
    "scatter_nd", "scatter_nd_add", "scatter_nd_sub", "scatter_nd_update", "scatter_sub", "scatter_update",
    "searchsorted", "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum", "select",
    "self_adjoint_eig", "self_adjoint_eigvals", "sequence_mask", "serialize_many_sparse", "serialize_sparse",
    "serialize_tensor", "serving", "set_difference", "set_intersection", "set_random_seed", "set_size", "set_union",
    "setdiff1d", "sets", "shape", "shape_n", "sigmoid", "sign", "signal", "sin", "sinh", "size", "slice", "sort",
    "space_to_batch", "space_to_batch_nd", "space_to_depth", "sparse", "sparse_add", "sparse_concat",
    "sparse_dense_cwise_div", "sparse_dense_cwise_mul", "sparse_fill_empty_rows", "sparse_mask", "sparse_matmul",
    "sparse_maximum", "sparse_merge", "sparse_minimum", "sparse_names", "sparse_placeholder", "sparse_reduce_max",
    "sparse_reduce_max_sparse", "sparse_reduce_sum", "sparse_reduce_sum_sparse", "sparse_reorder", "sparse_reset_shape",
    "sparse_reshape", "sparse_retain", "sparse_segment_mean", "sparse_segment_sqrt_n", "sparse_segment_sum",
    "sparse_slice", "sparse_softmax", "sparse_split", "sparse_tensor_dense_matmul", "sparse_tensor_to_dense",
    "sparse_to_dense", "sparse_to_indicator", "sparse_transpose", "spectral", "split", "sqrt", "square",
    "squared_difference", "squeeze", "stack", "stack_close_v2", "stack_pop_v2", "stack_push_v2", "stack_v2",
    "stop_gradient", "strided_slice", "string", "string_join", "string_length", "string_lower", "string_split",
    "string_strip", "string_to_hash_bucket", "string_to_hash_bucket_fast", "string_to_hash_bucket_strong",
    "string_to_number", "string_upper", "strings", "substr", "subtract", "summarize_value", "summary", "svd", "switch",
    "switch_case", "tables_initializer", "tan", "tanh", "tensor_scatter_add", "tensor_scatter_nd_add",
    "tensor_scatter_nd_max", "tensor_scatter_nd_min", "tensor_scatter_nd_sub", "tensor_scatter_nd_update",
    "tensor_scatter_sub", "tensor_scatter_update", "tensordot", "tensorflow_files", "test", "tile", "timestamp",
    "to_bfloat16", "to_complex128", "to_complex64", "to_double", "to_float", "to_int32", "to_int64", "top_k", "trace",
    "train", "trainable_variables", "transpose", "truediv", "truncated_normal", "truncated_normal_initializer",
    "truncatediv", "truncatemod", "tuple", "type_spec_from_value", "uint16", "uint2", "uint32", "uint4", "uint64",
    "uint8", "uniform_unit_scaling_initializer", "unique", "unique_with_counts", "unravel_index",
    "unsorted_segment_max", "unsorted_segment_mean", "unsorted_segment_min", "unsorted_segment_prod",
    "unsorted_segment_sqrt_n", "unsorted_segment_sum", "unstack", "variable_axis_size_partitioner",
    "variable_creator_scope", "variable_op_scope", "variable_scope", "variables_initializer",
    "variance_scaling_initializer", "vectorized_map", "verify_tensor_all_finite", "version", "weights_broadcast",
    "where", "where_v2", "while_loop", "with_dependencies", "write_file", "xdivy", "xlogy", "zeros",
    "zeros_initializer", "zeros_like", "zeta"]

def diag(diagonal: NumberLike, name: str | None = None) -> Tensor:
    """`diagonal` where the first half of the indices equals the second, 0 elsewhere: the rank is twice as high.

    Examples:
        >>> await session.run(af.diag([1, 2]))
        array([[1, 0],
               [0, 2]], dtype=int32)
    """


def diag_part(input: TensorLike, name: str | None = None) -> Tensor:
    """The elements of `input` where the first half of the indices equals the second: the inverse of `diag`.

    Examples:
        >>> await session.run(af.diag_part([[1, 2], [3, 4]]))
        array([1, 4], dtype=int32)
    """


def matrix_transpose(a: TensorLike, name: str | None = None, conjugate: builtins.bool = False) -> Tensor:
    """`a` with its last two axes swapped; with `conjugate`, the adjoint of each matrix.

    Examples:
        >>> await session.run(af.matrix_transpose([[1, 2], [3, 4]]))
        array([[1, 3],
               [2, 4]], dtype=int32)
    """


def reverse(tensor: TensorLike, axis: int | Sequence[int], name: str | None = None) -> Tensor:
    """`tensor` with the elements along these axes in the opposite order.

    Examples:
        >>> await session.run(af.reverse([[1, 2], [3, 4]], axis=[1]))
        array([[2, 1],
               [4, 3]], dtype=int32)
    """


def tile(input: TensorLike, multiples: NumberLike, name: str | None = None) -> Tensor:
    """`input` repeated `multiples[i]` times along axis i.

    Examples:
        >>> await session.run(af.tile([1, 2], [2]))
        array([1, 2, 1, 2], dtype=int32)
    """


def transpose(
    a: TensorLike,
    perm: Sequence[int] | None = None,
    name: str | None = None,
    conjugate: builtins.bool = False,
) -> Tensor:
    """`a` with its axes in the order `perm`, by default reversed: axis i of the result is axis `perm[i]` of `a`.

    With `conjugate`, the complex conjugate of that.

    Examples:
        >>> await session.run(af.transpose([[1, 2, 3], [4, 5, 6]]))
        array([[1, 4],
               [2, 5],
               [3, 6]], dtype=int32)
    """


def fill(dims: NumberLike, value: TensorLike, name: str | None = None) -> Tensor:
    """A tensor of shape `dims` in which every element is `value`, a scalar.

    Examples:
        >>> await session.run(af.fill([2, 3], 7))
        array([[7, 7, 7],
               [7, 7, 7]], dtype=int32)
    """


def identity(input: TensorLike, name: str | None = None) -> Tensor:
    """`input` unchanged.

    Examples:
        >>> await session.run(af.identity([1, 2]))
        array([1, 2], dtype=int32)
    """


def no_op(name: str | None = None) -> Operation:
    """Nothing: a place for control inputs to meet.

    Examples:
        >>> await session.run(af.no_op())
    """


def placeholder_with_default(input: TensorLike, shape: ShapeLike, name: str | None = None) -> Tensor:
    """`input`, unless a run feeds another value of a shape compatible with `shape`.

    Examples:
        >>> rate = af.placeholder_with_default(0.1, [])
        >>> await session.run(rate), await session.run(rate, {rate: 0.5})
        (np.float32(0.1), np.float32(0.5))
    """


def prevent_gradient(input: TensorLike, message: str = "", name: str | None = None) -> Tensor:
    """`input` unchanged; building a gradient through it raises LookupError with `message`.

    Examples:
        >>> await session.run(af.prevent_gradient([1.0]))
        array([1.], dtype=float32)
    """


def stop_gradient(input: TensorLike, name: str | None = None) -> Tensor:
    """`input` unchanged, as a constant to the gradient.

    Examples:
        >>> await session.run(af.stop_gradient([1.0, 2.0]))
        array([1., 2.], dtype=float32)
    """


def scatter_nd(indices: NumberLike, updates: TensorLike, shape: NumberLike, name: str | None = None) -> Tensor:
    """Zeros of that shape, with `updates` added at the positions along the last axis of `indices`.

    Bools begin as false, and are joined by `or`; strings begin empty, and are joined in their order.

    Examples:
        >>> await session.run(af.scatter_nd([[1], [3]], [10, 20], [5]))
        array([ 0, 10,  0, 20,  0], dtype=int32)
    """


def unravel_index(indices: NumberLike, dims: NumberLike, name: str | None = None) -> Tensor:
    """The positions of elements, given by their numbers, in an array of sizes `dims`, the last axis counting fastest.

    The shape is [len(dims), *indices.shape]. InvalidArgumentError if a number is out of range.

    Examples:
        >>> await session.run(af.unravel_index([5], [2, 3]))
        array([[1],
               [2]], dtype=int32)
    """


def broadcast_dynamic_shape(shape_x: NumberLike, shape_y: NumberLike, name: str | None = None) -> Tensor:
    """The shape that two shapes, vectors of sizes, broadcast to. InvalidArgumentError if they cannot.

    Examples:
        >>> await session.run(af.broadcast_dynamic_shape([2, 1], [3]))
        array([2, 3], dtype=int32)
    """


def dynamic_partition(
    data: TensorLike,
    partitions: NumberLike,
    num_partitions: int,
    name: str | None = None,
) -> builtins.tuple[Tensor, ...]:
    """One tensor for each number below `num_partitions`: the rows of `data` that `partitions` gives that number.

    The shape of `data` begins with that of `partitions`. InvalidArgumentError if a number is out of range.

    Examples:
        >>> await session.run(af.dynamic_partition([10, 20, 30], [1, 0, 1], 2))
        (array([20], dtype=int32), array([10, 30], dtype=int32))
    """


def dynamic_stitch(indices: Sequence[NumberLike], data: Sequence[TensorLike], name: str | None = None) -> Tensor:
    """The tensor whose row `indices[m][i]` is `data[m][i]`; the last of equal indices wins, and unnamed rows are 0.

    The number of rows is the highest index plus 1. The shape of each `data[m]` begins with that of `indices[m]`.

    Examples:
        >>> await session.run(af.dynamic_stitch([[0, 2], [1]], [[10, 30], [20]]))
        array([10, 20, 30], dtype=int32)
    """


def ensure_shape(x: TensorLike, shape: ShapeLike, name: str | None = None) -> Tensor:
    """`x`, with its shape checked against `shape` in the run. InvalidArgumentError if they differ.

    Examples:
        >>> await session.run(af.ensure_shape([1, 2], [2]))
        array([1, 2], dtype=int32)
    """


def linspace(start: NumberLike, stop: NumberLike, num: NumberLike, name: str | None = None) -> Tensor:
    """`num` numbers at equal distances, the first of which is `start` and the last `stop`.

    Examples:
        >>> await session.run(af.linspace(0.0, 1.0, 5))
        array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """


def tensor_scatter_add(tensor: NumberLike, indices: NumberLike, updates: NumberLike, name: str | None = None) -> Tensor:
    """`tensor` with `updates` added at the positions `indices`.

    The positions are along the last axis of `indices`: as `gather_nd` takes them.

    Examples:
        >>> await session.run(af.tensor_scatter_nd_add([1, 2, 3], [[0], [2]], [5, 1]))
        array([6, 2, 4], dtype=int32)
    """


def tensor_scatter_nd_max(
    tensor: NumberLike,
    indices: NumberLike,
    updates: NumberLike,
    name: str | None = None,
) -> Tensor:
    """The largest of the element of `tensor` and all `updates` there.

    The positions are along the last axis of `indices`: as `gather_nd` takes them.

    Examples:
        >>> await session.run(af.tensor_scatter_nd_max([1, 2, 3], [[0], [2]], [5, 1]))
        array([5, 2, 3], dtype=int32)
    """


def tensor_scatter_nd_min(
    tensor: NumberLike,
    indices: NumberLike,
    updates: NumberLike,
    name: str | None = None,
) -> Tensor:
    """The smallest of the element of `tensor` and all `updates` there.

    The positions are along the last axis of `indices`: as `gather_nd` takes them.

    Examples:
        >>> await session.run(af.tensor_scatter_nd_min([1, 2, 3], [[0], [2]], [5, 1]))
        array([1, 2, 1], dtype=int32)
    """


def tensor_scatter_nd_sub(
    tensor: NumberLike,
    indices: NumberLike,
    updates: NumberLike,
    name: str | None = None,
) -> Tensor:
    """`tensor` with `updates` subtracted at the positions `indices`.

    The positions are along the last axis of `indices`: as `gather_nd` takes them.

    Examples:
        >>> await session.run(af.tensor_scatter_nd_sub([1, 2, 3], [[0], [2]], [5, 1]))
        array([-4,  2,  2], dtype=int32)
    """


def tensor_scatter_nd_update(
    tensor: TensorLike,
    indices: NumberLike,
    updates: TensorLike,
    name: str | None = None,
) -> Tensor:
    """`tensor` with `updates` at the positions `indices`; of repeated ones the last.

    The positions are along the last axis of `indices`: as `gather_nd` takes them.

    Examples:
        >>> await session.run(af.tensor_scatter_nd_update([1, 2, 3], [[0], [2]], [5, 1]))
        array([5, 2, 1], dtype=int32)
    """


def masked(x: TensorLike, mask: TensorLike, name: str | None = None) -> Tensor:
    """`x` where `mask` is true, 0 elsewhere, even where x is infinite or NaN. The mask broadcasts to x's shape.

    Examples:
        >>> await session.run(af.masked([1.0, 2.0], [True, False]))
        array([1., 0.], dtype=float32)
    """


def select(condition: TensorLike, x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """`x` where `condition` is true, y elsewhere; all three are broadcast together by NumPy's rule.

    Examples:
        >>> await session.run(af.select([True, False], [1, 2], [10, 20]))
        array([ 1, 20], dtype=int32)
    """


def roll(input: TensorLike, shift: NumberLike, axis: int | Sequence[int], name: str | None = None) -> Tensor:
    """`input` with the elements moved `shift` places along an axis, those pushed out at the end coming in at the begin.

    Several axes go with several shifts; of an axis named twice the shifts add up.

    Examples:
        >>> await session.run(af.roll([1, 2, 3, 4], shift=1, axis=0))
        array([4, 1, 2, 3], dtype=int32)
    """


def broadcast_to(input: TensorLike, shape: NumberLike, name: str | None = None) -> Tensor:
    """`input` repeated along axes of size 1, and along new axes in front, to have that shape.

    Examples:
        >>> await session.run(af.broadcast_to([1, 2], [2, 2]))
        array([[1, 2],
               [1, 2]], dtype=int32)
    """


def expand_dims(input: TensorLike, axis: int, name: str | None = None) -> Tensor:
    """`input` with an axis of size 1 put in, which becomes `axis`; a negative one counts from the end of the result.

    Examples:
        >>> await session.run(af.expand_dims([1, 2], axis=1))
        array([[1],
               [2]], dtype=int32)
    """


def rank(input: TensorLike, name: str | None = None) -> Tensor:
    """The number of axes of `input`.

    Examples:
        >>> await session.run(af.rank([[1, 2], [3, 4]]))
        np.int32(2)
    """


def reshape(tensor: TensorLike, shape: NumberLike, name: str | None = None) -> Tensor:
    """The elements of `tensor`, last axis fastest, as an array of that shape.

    One size may be -1: it follows from the number of elements. ValueError if the sizes do not fit it.

    Examples:
        >>> await session.run(af.reshape([1, 2, 3, 4], [2, -1]))
        array([[1, 2],
               [3, 4]], dtype=int32)
    """


def shape(input: TensorLike, name: str | None = None, out_type: DTypeLike = ...) -> Tensor:
    """The sizes of the axes of `input`, as a vector.

    Examples:
        >>> await session.run(af.shape([[1, 2, 3], [4, 5, 6]]))
        array([2, 3], dtype=int32)
    """


def size(input: TensorLike, name: str | None = None, out_type: DTypeLike = ...) -> Tensor:
    """The number of elements of `input`.

    Examples:
        >>> await session.run(af.size([[1, 2, 3], [4, 5, 6]]))
        np.int32(6)
    """


def squeeze(
    input: TensorLike,
    axis: int | Sequence[int] | None = None,
    name: str | None = None,
    *,
    squeeze_dims: int | Sequence[int] | None = None,
) -> Tensor:
    """`input` without its axes of size 1, or without those named. ValueError if one named has another size.

    Examples:
        >>> await session.run(af.squeeze([[[1], [2]]]))
        array([1, 2], dtype=int32)
    """


def slice(input_: TensorLike, begin: NumberLike, size: NumberLike, name: str | None = None) -> Tensor:
    """The part of `input_` that begins at `begin` and has the shape `size`, in which -1 means all that is left.

    ValueError, or InvalidArgumentError in a run, if it does not lie wholly within `input_`.

    Examples:
        >>> await session.run(af.slice([[1, 2, 3], [4, 5, 6]], [0, 1], [2, 2]))
        array([[2, 3],
               [5, 6]], dtype=int32)
    """


def argsort(
    values: TensorLike,
    axis: int = -1,
    direction: str = "ASCENDING",
    stable: builtins.bool = False,
    name: str | None = None,
) -> Tensor:
    """For each place along an axis the place, as int32, of the element that `sort` puts there.

    Of equal elements the one at the lower place comes first, whether `stable` or not. Strings are in the order of their
    bytes.

    Examples:
        >>> await session.run(af.argsort([3, 1, 2]))
        array([1, 2, 0], dtype=int32)
    """


def invert_permutation(x: NumberLike, name: str | None = None) -> Tensor:
    """The inverse of the permutation `x`: `y[x[i]] == i`. InvalidArgumentError if `x` is not a permutation.

    Examples:
        >>> await session.run(af.invert_permutation([2, 0, 1]))
        array([1, 2, 0], dtype=int32)
    """


def nth_element(input: NumberLike, n: NumberLike, reverse: builtins.bool = False, name: str | None = None) -> Tensor:
    """The element at position `n` of the last axis, sorted in rising or, if `reverse`, falling order.

    Equal elements share the gradient evenly. InvalidArgumentError if the axis has at most `n` elements.

    Examples:
        >>> await session.run(af.nth_element([5, 1, 3], 1))
        np.int32(3)
    """


def sort(values: NumberLike, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """The elements in rising or, if `direction` is "DESCENDING", falling order along an axis.

    NaN counts as greater than all else.

    Examples:
        >>> await session.run(af.sort([3, 1, 2]))
        array([1, 2, 3], dtype=int32)
    """


def unique(x: TensorLike, out_idx: DTypeLike = ..., name: str | None = None) -> builtins.tuple[Tensor, Tensor]:
    """The distinct elements of a vector in the order of their first occurrence, and for each element its place there.

    With `y, idx = unique(x)`, `y[idx[i]] == x[i]`. NaN is distinct from NaN.

    Examples:
        >>> await session.run(af.unique([7, 7, 5, 7]))
        (array([7, 5], dtype=int32), array([0, 0, 1, 0], dtype=int32))
    """


def depth_to_space(input: TensorLike, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Tensor:
    """Each pixel as a block of `block_size` x `block_size`, between which its channels are divided.

    Examples:
        >>> await session.run(af.depth_to_space([[[[1, 2, 3, 4]]]], 2)[0, :, :, 0])
        array([[1, 2],
               [3, 4]], dtype=int32)
    """


def space_to_depth(input: TensorLike, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Tensor:
    """Each block of `block_size` x `block_size` pixels as one, whose channels are theirs one after the other.

    Examples:
        >>> await session.run(af.space_to_depth([[[[1], [2]], [[3], [4]]]], 2))
        array([[[[1, 2, 3, 4]]]], dtype=int32)
    """


def Assert(
    condition: TensorLike,
    data: Sequence[TensorLike],
    summarize: int | None = None,
    name: str | None = None,
) -> Operation:
    """`condition`, a scalar, is true; else InvalidArgumentError with the first elements of each of `data`.

    Examples:
        >>> try:
        ...     await session.run(af.Assert(af.constant(1) > 2, ["too small"]))
        ... except af.errors.InvalidArgumentError as error:
        ...     print(error.message)
        assertion failed: [too small]
    """


def control_trigger(name: str | None = None) -> Operation:
    """Does nothing, after its control inputs; it runs even if they are dead, and its successors are live.

    Examples:
        >>> v = af.Variable(1)
        >>> await session.run(v.initializer)
        >>> with af.control_dependencies([v.assign_add(1), af.no_op()]):
        ...     done = af.control_trigger()
        >>> await session.run(done)
        >>> await session.run(v)
        np.int32(2)
    """


def enter(
    data: TensorLike,
    frame_name: str,
    is_constant: builtins.bool = False,
    parallel_iterations: int = 10,
    name: str | None = None,
) -> Tensor:
    """`data` in the first iteration of the frame of that name, or in every iteration if `is_constant`.

    All that enters one frame comes from the same place. At most `parallel_iterations` of its iterations are under way
    at the same time: the fewest that any `enter` of the frame which is not constant asks for.

    Examples:
        >>> x = af.enter(af.constant(3.0), "frame") * af.enter(2.0, "frame", is_constant=True)
        >>> await session.run(af.exit(x))
        np.float32(6.0)
    """


def exit(data: TensorLike, name: str | None = None) -> Tensor:
    """`data` outside of the frame: of the iteration in which it is not dead, which for a loop is the last.

    Examples:
        >>> x = af.enter(af.constant(3.0), "frame") + af.enter(2.0, "frame", is_constant=True)
        >>> await session.run(af.exit(x))
        np.float32(5.0)
    """


def loop_cond(input: TensorLike, name: str | None = None) -> Tensor:
    """`input`, the bool that decides whether the loop continues, as the predicate of the loop's switches.

    Examples:
        >>> count, _ = af.merge([af.enter(0, "loop")] * 2)
        >>> last, going = af.switch(count, af.loop_cond(count < 5))
        >>> count.op.update_input(1, af.next_iteration(going + 1))
        >>> await session.run(af.exit(last))
        np.int32(5)
    """


def merge(inputs: Sequence[TensorLike], name: str | None = None) -> builtins.tuple[Tensor, Tensor]:
    """(output, value_index): the first live input to arrive, and its number; later inputs are ignored.

    It does not wait for the others. It is dead if all inputs are dead; in a loop, if the value that enters is dead.

    Examples:
        >>> off, on = af.switch(af.constant(2.0), af.constant(False))
        >>> value, index = af.merge([off * 10.0, on + 1.0])
        >>> await session.run([value, index])
        [np.float32(20.0), np.int32(0)]
    """


def next_iteration(data: TensorLike, name: str | None = None) -> Tensor:
    """`data` in the next iteration of the frame; nothing if it is dead, which ends the loop.

    Examples:
        >>> count, _ = af.merge([af.enter(0, "loop")] * 2)
        >>> last, going = af.switch(count, af.loop_cond(count < 5))
        >>> count.op.update_input(1, af.next_iteration(going + 1))
        >>> await session.run(af.exit(last))
        np.int32(5)
    """


def switch(data: TensorLike, pred: TensorLike, name: str | None = None) -> builtins.tuple[Tensor, Tensor]:
    """(output_false, output_true): `data` at the one that the truth `pred` chooses, while the other is dead.

    A control edge from it is not dead: to make operations depend on the choice, let them depend on an `af.identity`
    of one of the outputs.

    Examples:
        >>> off, on = af.switch(af.constant(2.0), af.constant(True))
        >>> value, index = af.merge([off * 10.0, on + 1.0])
        >>> await session.run([value, index])
        [np.float32(3.0), np.int32(1)]
    """


def Print(
    input_: TensorLike,
    data: Sequence[TensorLike],
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Tensor:
    """`input_` unchanged; each time it is computed, `message` and the first elements of each of `data` go to stderr.

    `first_n` bounds how often it prints in one session, `summarize` how many elements of each tensor, 3 by default; a
    negative number stands for no bound.

    Examples:
        >>> x = af.Print([1, 2], ["x is"])
        >>> await session.run(x)
        array([1, 2], dtype=int32)
    """


def check_numerics(tensor: NumberLike, message: str, name: str | None = None) -> Tensor:
    """`tensor` unchanged; InvalidArgumentError with `message` and their count if elements are NaN or infinite.

    Examples:
        >>> try:
        ...     await session.run(af.check_numerics([1.0, float("nan")], "scores"))
        ... except af.errors.InvalidArgumentError as error:
        ...     print(error.message)
        scores: 1 NaN and 0 infinite of 2 elements
    """


def timestamp(name: str | None = None) -> Tensor:
    """The seconds since the beginning of 1970 when the operation runs.

    Examples:
        >>> bool(await session.run(af.timestamp()) > 0)
        True
    """


def stack_close_v2(handle: TensorLike, name: str | None = None) -> Operation:
    """The stack is empty and closed: pushing and popping fail.

    Examples:
        >>> stack = af.stack_v2(10, af.int32)
        >>> await session.run(af.stack_close_v2(stack))
    """


def stack_pop_v2(handle: TensorLike, elem_type: DTypeLike, name: str | None = None) -> Tensor:
    """The element on top of the stack, which is taken off. InvalidArgumentError if the stack is empty or closed.

    Examples:
        >>> stack = af.stack_v2(10, af.int32)
        >>> with af.control_dependencies([af.stack_push_v2(stack, 7)]):
        ...     top = af.stack_pop_v2(stack, af.int32)
        >>> await session.run(top)
        np.int32(7)
    """


def stack_push_v2(
    handle: TensorLike,
    elem: TensorLike,
    swap_memory: builtins.bool = False,
    name: str | None = None,
) -> Tensor:
    """`elem`, once it is on top of the stack.

    With `swap_memory` a large one is kept in host memory if the device's own is nearly full. InvalidArgumentError if
    the stack is full or closed.

    Examples:
        >>> stack = af.stack_v2(10, af.int32)
        >>> await session.run(af.stack_push_v2(stack, 7))
        np.int32(7)
    """


def stack_v2(max_size: NumberLike, elem_type: DTypeLike, stack_name: str = "", name: str | None = None) -> Tensor:
    """A handle to a new, empty stack of at most `max_size` elements; of any number if that is negative.

    Examples:
        >>> stack = af.stack_v2(10, af.int32)
        >>> with af.control_dependencies([af.stack_push_v2(stack, 7)]):
        ...     value = af.stack_pop_v2(stack, af.int32)
        >>> await session.run(value)
        np.int32(7)
    """


def decode_compressed(
    bytes: TextLike,
    compression_type: str = "",
    max_output_bytes: int = 1073741824,
    name: str | None = None,
) -> Tensor:
    """Each string decompressed, by ZLIB or GZIP; itself if the type is empty.

    InvalidArgumentError for bytes that are not so compressed, ResourceExhaustedError for a string that becomes longer
    than `max_output_bytes`, or, beyond 64 MiB, more than 250 times longer.

    Examples:
        >>> import gzip
        >>> await session.run(af.decode_compressed(gzip.compress(b"tea"), "GZIP"))
        b'tea'
    """


def decode_csv(
    records: TextLike,
    record_defaults: Sequence[TensorLike],
    field_delim: str = ",",
    use_quote_delim: builtins.bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: builtins.tuple[int, ...] | None = None,
) -> builtins.tuple[Tensor, ...]:
    """The fields of records of comma-separated values, column by column: each has the shape of `records`.

    Fields may be put in quotes, in which two quotes stand for one.

    Args:
        records: strings, each a line without its end.
        record_defaults: for each column a tensor of its dtype: the value of empty fields; one without elements if a
            field must not be empty.
        field_delim: the character between fields.
        use_quote_delim: whether quotes are anything but a character like others.
        name: the name of the operation.
        na_value: fields of that text count as empty.
        select_cols: the numbers of the columns that are wanted, rising; all by default.

    Raises:
        InvalidArgumentError: in the run: a record has more or fewer fields, or one is empty, or spells no number.

    Examples:
        >>> await session.run(af.decode_csv(["1,2.5", "3,"], [[0], [0.0]]))
        (array([1, 3], dtype=int32), array([2.5, 0. ], dtype=float32))
    """


def decode_npy(contents: TextLike, dtype: DTypeLike, shape: ShapeLike = ..., name: str | None = None) -> Tensor:
    """Decodes a string in the format of NumPy's `.npy` files to an array of that dtype.

    InvalidArgumentError if it holds objects, another dtype or shape, or more or fewer bytes than its header states.

    Examples:
        >>> import io
        >>> file = io.BytesIO()
        >>> np.save(file, np.array([1, 2]))
        >>> await session.run(af.decode_npy(file.getvalue(), af.int64))
        array([1, 2])
    """


def decode_json_example(json_examples: TextLike, name: str | None = None) -> Tensor:
    """Each example written as JSON, as the bytes that `parse_example` takes.

    `{"features": {"feature": {"label": {"int64List": {"value": ["7"]}}}}}` is one; there are `floatList` and, with
    base64 for its strings, `bytesList`. Names may also be written as `int64_list`.

    InvalidArgumentError for anything else.

    Examples:
        >>> text = '{"features": {"feature": {"age": {"int64List": {"value": ["7"]}}}}}'
        >>> example = af.decode_json_example(text)
        >>> await session.run(af.parse_single_example(example, {"age": af.FixedLenFeature([], af.int64)}))
        {'age': np.int64(7)}
    """


def parse_tensor(serialized: TextLike, out_type: DTypeLike, name: str | None = None) -> Tensor:
    """The tensor of dtype `out_type` in a string of `serialize_tensor`, or in any TensorProto of TensorFlow.

    InvalidArgumentError if the bytes are none, or hold another dtype.

    Examples:
        >>> data = af.serialize_tensor([1, 2])
        >>> await session.run(af.parse_tensor(data, af.int32))
        array([1, 2], dtype=int32)
    """


def serialize_tensor(tensor: TensorLike, name: str | None = None) -> Tensor:
    """The tensor as a string: the bytes of TensorFlow's TensorProto, which `parse_tensor` reads.

    Examples:
        >>> data = af.serialize_tensor([[1.0, 2.0]])
        >>> await session.run(af.parse_tensor(data, af.float32))
        array([[1., 2.]], dtype=float32)
    """


def cholesky(input: NumberLike, name: str | None = None) -> Tensor:
    """The lower triangle L with a positive diagonal for which L adjoint(L) is `input`, Hermitian and positive definite.

    Only the lower triangle of `input` is read; its gradient is Hermitian. InvalidArgumentError names the first matrix
    that is not positive definite.

    Examples:
        >>> await session.run(af.cholesky([[4.0, 2.0], [2.0, 5.0]]))
        array([[2., 0.],
               [1., 2.]], dtype=float32)
    """


def qr(
    input: NumberLike,
    full_matrices: builtins.bool = False,
    name: str | None = None,
) -> builtins.tuple[Tensor, Tensor]:
    """Q and R with Q R = `input`: the columns of Q are orthonormal, R is an upper triangle.

    Q is [..., m, p] and R [..., p, n] for matrices of m rows and n columns, with p the lesser of both, or m with
    `full_matrices`. The columns of Q beyond the n-th have no gradient, only the space that they span has.

    Examples:
        >>> q, r = af.qr([[1.0, 2.0], [3.0, 4.0]])
        >>> (await session.run(q @ r)).round(3)
        array([[1., 2.],
               [3., 4.]], dtype=float32)
    """


def self_adjoint_eig(tensor: NumberLike, name: str | None = None) -> builtins.tuple[Tensor, Tensor]:
    """The eigenvalues e of each Hermitian matrix, least first, and in the columns of v the vectors.

    `tensor` v = v diag(e). Both have the dtype of `tensor`, of which only the lower triangle is read; its gradient is
    Hermitian.

    Examples:
        >>> values, vectors = af.self_adjoint_eig([[2.0, 0.0], [0.0, 1.0]])
        >>> await session.run(values)
        array([1., 2.], dtype=float32)
    """


def self_adjoint_eigvals(tensor: NumberLike, name: str | None = None) -> Tensor:
    """The eigenvalues of each Hermitian matrix, least first, of its dtype; only its lower triangle is read.

    Examples:
        >>> await session.run(af.self_adjoint_eigvals([[2.0, 0.0], [0.0, 1.0]]))
        array([1., 2.], dtype=float32)
    """


def log_matrix_determinant(input: NumberLike, name: str | None = None) -> builtins.tuple[Tensor, Tensor]:
    """The sign of each determinant, and the logarithm of its absolute value, both of the dtype of `input`.

    The sign is 0 and the logarithm -inf for a singular matrix; the sign of a complex one is on the unit circle.

    Examples:
        >>> await session.run(af.log_matrix_determinant([[2.0, 0.0], [0.0, 4.0]]))
        (np.float32(1.0), np.float32(2.0794415))
    """


def matrix_determinant(input: NumberLike, name: str | None = None) -> Tensor:
    """The determinant of each square matrix. Its gradient needs the inverse, which a singular matrix does not have.

    Examples:
        >>> await session.run(af.matrix_determinant([[1.0, 2.0], [3.0, 5.0]]))
        np.float32(-1.0)
    """


def matrix_band_part(
    input: NumberLike,
    num_lower: NumberLike,
    num_upper: NumberLike,
    name: str | None = None,
) -> Tensor:
    """`input` with zeros outside of a band: `num_lower` diagonals below the main one and `num_upper` above it.

    A negative number keeps all: (-1, 0) is the lower triangle, (0, -1) the upper one, (0, 0) the diagonal.

    Examples:
        >>> await session.run(af.matrix_band_part([[1, 2, 3], [4, 5, 6], [7, 8, 9]], 0, 1))
        array([[1, 2, 0],
               [0, 5, 6],
               [0, 0, 9]], dtype=int32)
    """


def matrix_diag(
    diagonal: NumberLike,
    name: str | None = None,
    k: int | Sequence[int] = 0,
    num_rows: int = -1,
    num_cols: int = -1,
    padding_value: float = 0,
) -> Tensor:
    """Matrices with `diagonal` on diagonal `k`, or rows of it on several, and `padding_value` elsewhere.

    They are square and as small as can be, unless a number of rows or columns other than -1 is given.

    Examples:
        >>> await session.run(af.matrix_diag([1, 2]))
        array([[1, 0],
               [0, 2]], dtype=int32)
    """


def matrix_diag_part(
    input: NumberLike,
    name: str | None = None,
    k: int | Sequence[int] = 0,
    padding_value: float = 0,
) -> Tensor:
    """The elements of diagonal `k` of each matrix; of several, one row each, padded with `padding_value`.

    Examples:
        >>> await session.run(af.matrix_diag_part([[1, 2], [3, 4]]))
        array([1, 4], dtype=int32)
    """


def matrix_set_diag(
    input: NumberLike,
    diagonal: NumberLike,
    name: str | None = None,
    k: int | Sequence[int] = 0,
) -> Tensor:
    """`input` with `diagonal` on diagonal `k` of each matrix, or rows of it on several.

    Examples:
        >>> await session.run(af.matrix_set_diag([[1, 2], [3, 4]], [7, 8]))
        array([[7, 2],
               [3, 8]], dtype=int32)
    """


def matmul(
    a: NumberLike,
    b: NumberLike,
    transpose_a: builtins.bool = False,
    transpose_b: builtins.bool = False,
    adjoint_a: builtins.bool = False,
    adjoint_b: builtins.bool = False,
    a_is_sparse: builtins.bool = False,
    b_is_sparse: builtins.bool = False,
    name: str | None = None,
) -> Tensor:
    """The matrix product of a and b, each optionally transposed, or transposed and conjugated.

    Tensors of higher rank are batches of matrices in their last two axes; the axes before broadcast by NumPy's rule.
    Narrow floats are multiplied as float32 on the CPU and rounded once. That a or b is sparse is a
    hint without meaning.

    Examples:
        >>> await session.run(af.matmul([[1, 2]], [[3], [4]]))
        array([[11]], dtype=int32)
    """


def trace(x: NumberLike, name: str | None = None) -> Tensor:
    """The sum of the diagonal of each matrix in the last two axes.

    Examples:
        >>> await session.run(af.trace([[1, 2], [3, 4]]))
        np.int32(5)
    """


def cross(a: NumberLike, b: NumberLike, name: str | None = None) -> Tensor:
    """The vector product of the vectors of three numbers in the last axes of a and b, whose other axes broadcast.

    Examples:
        >>> await session.run(af.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]))
        array([0., 0., 1.], dtype=float32)
    """


def matrix_square_root(input: NumberLike, name: str | None = None) -> Tensor:
    """The X with X X = `input` whose eigenvalues have positive real parts, of each square matrix. On the CPU alone.

    InvalidArgumentError names the first matrix that has an eigenvalue which is 0 or negative.

    Examples:
        >>> (await session.run(af.linalg.sqrtm([[4.0, 0.0], [0.0, 9.0]]))).round(3)
        array([[2., 0.],
               [0., 3.]], dtype=float32)
    """


def matrix_exponential(input: NumberLike, name: str | None = None) -> Tensor:
    """1 + x + x^2 / 2 + x^3 / 6 + ..., with powers of square matrices.

    Examples:
        >>> await session.run(af.matrix_exponential([[0.0, 1.0], [0.0, 0.0]]))
        array([[1., 1.],
               [0., 1.]], dtype=float32)
    """


def matrix_inverse(input: NumberLike, adjoint: builtins.bool = False, name: str | None = None) -> Tensor:
    """The inverse of each square matrix, or with `adjoint` of its conjugate transpose.

    InvalidArgumentError names the first matrix that is singular.

    Examples:
        >>> await session.run(af.matrix_inverse([[1.0, 1.0], [0.0, 2.0]]))
        array([[ 1. , -0.5],
               [ 0. ,  0.5]], dtype=float32)
    """


def matrix_solve(
    matrix: NumberLike,
    rhs: NumberLike,
    adjoint: builtins.bool = False,
    name: str | None = None,
) -> Tensor:
    """The x for which `matrix` x = `rhs`, or with `adjoint` for its conjugate transpose; batches broadcast.

    InvalidArgumentError names the first matrix that is singular.

    Examples:
        >>> await session.run(af.matrix_solve([[2.0, 0.0], [0.0, 4.0]], [[2.0], [2.0]]))
        array([[1. ],
               [0.5]], dtype=float32)
    """


def matrix_triangular_solve(
    matrix: NumberLike,
    rhs: NumberLike,
    lower: builtins.bool = True,
    adjoint: builtins.bool = False,
    name: str | None = None,
) -> Tensor:
    """The x for which `matrix` x = `rhs`, where only the lower (or upper) triangle of `matrix` counts.

    With `adjoint`, for the conjugate transpose of that triangle. Batches broadcast. InvalidArgumentError names the
    first matrix with a zero on its diagonal.

    Examples:
        >>> await session.run(af.matrix_triangular_solve([[2.0, 0.0], [1.0, 1.0]], [[2.0], [3.0]]))
        array([[1.],
               [2.]], dtype=float32)
    """


def add_n(inputs: Sequence[NumberLike], name: str | None = None) -> Tensor:
    """The sum of all inputs, which have one shape: no broadcasting.

    Examples:
        >>> await session.run(af.add_n([[1, 2], [3, 4], [5, 6]]))
        array([ 9, 12], dtype=int32)
    """


def divide(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """`x` divided by y; integers as floats: of 8 and 16 bits as float32, wider ones as float64.

    Examples:
        >>> await session.run(af.divide([7, 8], 2))
        array([3.5, 4. ])
    """


def floordiv(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """The greatest whole number not above x / y. Raises InvalidArgumentError where integers are divided by zero.

    Floats follow NumPy's `//`: NaN for an infinite x, -1 for a finite x over an infinite y of the other sign, where
    TensorFlow gives x / y and -0; infinite for a y of 0 unless x is 0. The smallest integer by -1 is itself.

    Examples:
        >>> await session.run(af.floordiv([7, -7], 2))
        array([ 3, -4], dtype=int32)
    """


def floormod(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """The remainder of `floordiv`: x - floordiv(x, y) * y, with the sign of y, as Python's %.  For floats: NaN for an
    infinite x or a y of 0; x, or y where their signs differ, for an infinite y.

    Examples:
        >>> await session.run(af.floormod([7, -7], 3))
        array([1, 2], dtype=int32)
    """


def maximum(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """The greater of x and y; NaN if either is. The gradient goes to the greater one, to x if they are equal.

    Examples:
        >>> await session.run(af.maximum([1, 5], 3))
        array([3, 5], dtype=int32)
    """


def minimum(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """The smaller of x and y; NaN if either is. The gradient goes to the smaller one, to x if they are equal.

    Examples:
        >>> await session.run(af.minimum([1, 5], 3))
        array([1, 3], dtype=int32)
    """


def multiply(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """x times y.

    Examples:
        >>> await session.run(af.multiply([1, 2], [3, 4]))
        array([3, 8], dtype=int32)
    """


def pow(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """x to the power of y. Raises InvalidArgumentError for an integer to a negative power.

    Examples:
        >>> await session.run(af.pow([2, 3], [3, 2]))
        array([8, 9], dtype=int32)
    """


def squared_difference(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """|x - y| squared.

    Examples:
        >>> await session.run(af.squared_difference([1.0, 5.0], [2.0, 2.0]))
        array([1., 9.], dtype=float32)
    """


def subtract(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """x - y.

    Examples:
        >>> await session.run(af.subtract([5, 7], [1, 2]))
        array([4, 5], dtype=int32)
    """


def bitcast(input: NumberLike, type: DTypeLike, name: str | None = None) -> Tensor:
    """The same bytes, read as another dtype.

    A wider dtype takes up the last axis, which must be as long as it is wider; a narrower one adds such an axis.

    Examples:
        >>> await session.run(af.bitcast(af.constant(1.0), af.int32))
        np.int32(1065353216)
    """


def bitwise_and(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """The bits set in both x and y.

    Examples:
        >>> await session.run(af.bitwise_and(12, 10))
        np.int32(8)
    """


def bitwise_or(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """The bits set in x or y, or both.

    Examples:
        >>> await session.run(af.bitwise_or(12, 10))
        np.int32(14)
    """


def bitwise_xor(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """The bits set in exactly one of x and y.

    Examples:
        >>> await session.run(af.bitwise_xor(12, 10))
        np.int32(6)
    """


def equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Whether x == y; NaN equals nothing.

    Examples:
        >>> await session.run(af.equal([1, 2, 3], [1, 0, 3]))
        array([ True, False,  True])
    """


def greater(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """Whether x > y.

    Examples:
        >>> await session.run(af.greater([1, 2, 3], 2))
        array([False, False,  True])
    """


def greater_equal(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """Whether x >= y.

    Examples:
        >>> await session.run(af.greater_equal([1, 2, 3], 2))
        array([False,  True,  True])
    """


def invert(x: NumberLike, name: str | None = None) -> Tensor:
    """x with every bit flipped: -x - 1 where it has a sign.

    Examples:
        >>> await session.run(af.invert(af.constant([0, 255], af.uint8)))
        array([255,   0], dtype=uint8)
    """


def left_shift(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """The bits of x moved y places up, zeros moving in; 0 where y is x's width or more, or negative (TensorFlow
    replaces a y that is too large by the width less 1, and a negative one by 0).

    Examples:
        >>> await session.run(af.left_shift([1, 3], 2))
        array([ 4, 12], dtype=int32)
    """


def less(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """Whether x < y.

    Examples:
        >>> await session.run(af.less([1, 2, 3], 2))
        array([ True, False, False])
    """


def less_equal(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """Whether x <= y.

    Examples:
        >>> await session.run(af.less_equal([1, 2, 3], 2))
        array([ True,  True, False])
    """


def logical_and(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Whether x and y are both true.

    Examples:
        >>> await session.run(af.logical_and([True, False], [True, True]))
        array([ True, False])
    """


def logical_not(x: TensorLike, name: str | None = None) -> Tensor:
    """Whether x is false.

    Examples:
        >>> await session.run(af.logical_not([True, False]))
        array([False,  True])
    """


def logical_or(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Whether x or y is true, or both.

    Examples:
        >>> await session.run(af.logical_or([True, False], [False, False]))
        array([ True, False])
    """


def logical_xor(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Whether exactly one of x and y is true.

    Examples:
        >>> await session.run(af.logical_xor([True, False], [True, True]))
        array([False,  True])
    """


def not_equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Whether x != y; NaN differs from all.

    Examples:
        >>> await session.run(af.not_equal([1, 2, 3], [1, 0, 3]))
        array([False,  True, False])
    """


def population_count(x: NumberLike, name: str | None = None) -> Tensor:
    """How many bits of x are 1, negative numbers as two's complements: a uint8.

    Examples:
        >>> await session.run(af.population_count([1, 7, 255]))
        array([1, 3, 8], dtype=uint8)
    """


def right_shift(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """The bits of x moved y places down, zeros moving in, or ones where x is negative; where y is x's width or more,
    or negative, nothing else is left (TensorFlow takes a y that is too large for the width less 1, and a
    negative one for 0).

    Examples:
        >>> await session.run(af.right_shift([4, 12], 2))
        array([1, 3], dtype=int32)
    """


def complex(real: NumberLike, imag: NumberLike, name: str | None = None) -> Tensor:
    """`real + i imag`, of float32 as complex64, of float64 as complex128.

    Examples:
        >>> await session.run(af.complex([1.0, 2.0], [0.5, -0.5]))
        array([1.+0.5j, 2.-0.5j], dtype=complex64)
    """


def cumprod(
    x: NumberLike,
    axis: int = 0,
    exclusive: builtins.bool = False,
    reverse: builtins.bool = False,
    name: str | None = None,
) -> Tensor:
    """The running product along an axis: element i is the product of all up to i.

    Without i itself if `exclusive`, counted from the end if `reverse`.

    Examples:
        >>> await session.run(af.cumprod([1, 2, 3, 4]))
        array([ 1,  2,  6, 24], dtype=int32)
    """


def cumsum(
    x: NumberLike,
    axis: int = 0,
    exclusive: builtins.bool = False,
    reverse: builtins.bool = False,
    name: str | None = None,
) -> Tensor:
    """The running sum along an axis: element i is the sum of all up to i.

    Without i itself if `exclusive`, counted from the end if `reverse`.

    Examples:
        >>> await session.run(af.cumsum([1, 2, 3, 4]))
        array([ 1,  3,  6, 10], dtype=int32)
    """


def cumulative_logsumexp(
    x: NumberLike,
    axis: int = 0,
    exclusive: builtins.bool = False,
    reverse: builtins.bool = False,
    name: str | None = None,
) -> Tensor:
    """The running log(sum(exp(x))) along an axis, without overflow: element i is that of all up to i.

    Without i itself if `exclusive`, so that the first one is -inf; counted from the end if `reverse`. On the CPU alone.

    Examples:
        >>> await session.run(af.cumulative_logsumexp([0.0, 0.0, 0.0]))
        array([0.       , 0.6931472, 1.0986123], dtype=float32)
    """


def divide_no_nan(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """x / y, and 0 where y is 0, for every x.

    Examples:
        >>> await session.run(af.div_no_nan([1.0, 2.0], [0.0, 4.0]))
        array([0. , 0.5], dtype=float32)
    """


def truncatediv(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """x / y, the fraction cut off, as C divides. Raises InvalidArgumentError where integers are divided by zero.

    Examples:
        >>> await session.run(af.truncatediv([7, -7], 2))
        array([ 3, -3], dtype=int32)
    """


def truncatemod(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """The remainder of `truncatediv`: x - truncatediv(x, y) * y, with the sign of x, as C's %.  Raises
    InvalidArgumentError where integers are divided by zero.

    Examples:
        >>> await session.run(af.truncatemod([7, -7], 3))
        array([ 1, -1], dtype=int32)
    """


def xlogy(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """x log(y), and 0 where x is 0, even if y is negative or NaN.

    Examples:
        >>> await session.run(af.xlogy([0.0, 1.0], [0.0, 1.0]))
        array([0., 0.], dtype=float32)
    """


def abs(x: NumberLike, name: str | None = None) -> Tensor:
    """The distance of x from 0; of a complex number its modulus, which is real.

    Examples:
        >>> await session.run(af.abs([-1.5, 2.0]))
        array([1.5, 2. ], dtype=float32)
    """


def acos(x: NumberLike, name: str | None = None) -> Tensor:
    """The angle in radians, between 0 and pi, whose cosine is x; NaN outside [-1, 1].

    Examples:
        >>> await session.run(af.acos([1.0, 0.0]))
        array([0.       , 1.5707964], dtype=float32)
    """


def acosh(x: NumberLike, name: str | None = None) -> Tensor:
    """The number, not negative, whose hyperbolic cosine is x; NaN below 1.

    Examples:
        >>> await session.run(af.acosh([1.0, 2.0]))
        array([0.      , 1.316958], dtype=float32)
    """


def asin(x: NumberLike, name: str | None = None) -> Tensor:
    """The angle in radians, between -pi/2 and pi/2, whose sine is x; NaN outside [-1, 1].

    Examples:
        >>> await session.run(af.asin([0.0, 1.0]))
        array([0.       , 1.5707964], dtype=float32)
    """


def asinh(x: NumberLike, name: str | None = None) -> Tensor:
    """The number whose hyperbolic sine is x.

    Examples:
        >>> await session.run(af.asinh([0.0, 1.0]))
        array([0.       , 0.8813736], dtype=float32)
    """


def atan(x: NumberLike, name: str | None = None) -> Tensor:
    """The angle in radians, between -pi/2 and pi/2, whose tangent is x.

    Examples:
        >>> await session.run(af.atan([0.0, 1.0]))
        array([0.       , 0.7853982], dtype=float32)
    """


def atan2(y: NumberLike, x: NumberLike, name: str | None = None) -> Tensor:
    """The angle in radians, between -pi and pi, from the positive x axis to the point (x, y).

    Examples:
        >>> await session.run(af.atan2([1.0, -1.0], [1.0, -1.0]))
        array([ 0.7853982, -2.3561945], dtype=float32)
    """


def atanh(x: NumberLike, name: str | None = None) -> Tensor:
    """The number whose hyperbolic tangent is x; NaN outside [-1, 1].

    Examples:
        >>> await session.run(af.atanh([0.0, 0.5]))
        array([0.        , 0.54930615], dtype=float32)
    """


def cos(x: NumberLike, name: str | None = None) -> Tensor:
    """The cosine of x radians.

    Examples:
        >>> await session.run(af.cos([0.0, 1.0]))
        array([1.       , 0.5403023], dtype=float32)
    """


def cosh(x: NumberLike, name: str | None = None) -> Tensor:
    """The hyperbolic cosine of x.

    Examples:
        >>> await session.run(af.cosh([0.0, 1.0]))
        array([1.       , 1.5430806], dtype=float32)
    """


def exp(x: NumberLike, name: str | None = None) -> Tensor:
    """e to the power of x.

    Examples:
        >>> await session.run(af.exp([0.0, 1.0]))
        array([1.      , 2.718282], dtype=float32)
    """


def expm1(x: NumberLike, name: str | None = None) -> Tensor:
    """exp(x) - 1, exact also near x = 0.

    Examples:
        >>> await session.run(af.expm1([0.0, 1e-10]))
        array([0.e+00, 1.e-10], dtype=float32)
    """


def log(x: NumberLike, name: str | None = None) -> Tensor:
    """The natural logarithm of x; -inf at 0, NaN below.

    Examples:
        >>> await session.run(af.log([1.0, 10.0, 0.0]))
        array([0.       , 2.3025851,      -inf], dtype=float32)
    """


def log1p(x: NumberLike, name: str | None = None) -> Tensor:
    """log(1 + x), exact also near x = 0.

    Examples:
        >>> await session.run(af.log1p([0.0, 1e-10]))
        array([0.e+00, 1.e-10], dtype=float32)
    """


def negative(x: NumberLike, name: str | None = None) -> Tensor:
    """-x.

    Examples:
        >>> await session.run(af.negative([1, -2]))
        array([-1,  2], dtype=int32)
    """


def reciprocal(x: NumberLike, name: str | None = None) -> Tensor:
    """1 / x.

    Examples:
        >>> await session.run(af.reciprocal([2.0, 4.0]))
        array([0.5 , 0.25], dtype=float32)
    """


def rsqrt(x: NumberLike, name: str | None = None) -> Tensor:
    """1 / sqrt(x).

    Examples:
        >>> await session.run(af.rsqrt([4.0, 16.0]))
        array([0.5 , 0.25], dtype=float32)
    """


def sigmoid(x: NumberLike, name: str | None = None) -> Tensor:
    """1 / (1 + exp(-x)): 1/2 at 0, flattening out towards 0 and 1, never NaN for a number.

    It is 0 where exp(-x) overflows: below -88.7 for float32.

    Examples:
        >>> await session.run(af.sigmoid([0.0, 2.0]))
        array([0.5     , 0.880797], dtype=float32)
    """


def sign(x: NumberLike, name: str | None = None) -> Tensor:
    """-1, 0 or 1 as x is negative, zero or positive; of a complex number x / |x|.

    Examples:
        >>> await session.run(af.sign([-3.0, 0.0, 2.0]))
        array([-1.,  0.,  1.], dtype=float32)
    """


def sin(x: NumberLike, name: str | None = None) -> Tensor:
    """The sine of x radians.

    Examples:
        >>> await session.run(af.sin([0.0, 1.0]))
        array([0.      , 0.841471], dtype=float32)
    """


def sinh(x: NumberLike, name: str | None = None) -> Tensor:
    """The hyperbolic sine of x.

    Examples:
        >>> await session.run(af.sinh([0.0, 1.0]))
        array([0.       , 1.1752012], dtype=float32)
    """


def sqrt(x: NumberLike, name: str | None = None) -> Tensor:
    """The square root of x; NaN for a negative number.

    Examples:
        >>> await session.run(af.sqrt([4.0, 9.0]))
        array([2., 3.], dtype=float32)
    """


def square(x: NumberLike, name: str | None = None) -> Tensor:
    """x times x.

    Examples:
        >>> await session.run(af.square([2, -3]))
        array([4, 9], dtype=int32)
    """


def tan(x: NumberLike, name: str | None = None) -> Tensor:
    """The tangent of x radians.

    Examples:
        >>> await session.run(af.tan([0.0, 1.0]))
        array([0.       , 1.5574077], dtype=float32)
    """


def tanh(x: NumberLike, name: str | None = None) -> Tensor:
    """The hyperbolic tangent of x: 0 at 0, flattening out towards -1 and 1.

    Examples:
        >>> await session.run(af.tanh([0.0, 1.0]))
        array([0.       , 0.7615942], dtype=float32)
    """


def digamma(x: NumberLike, name: str | None = None) -> Tensor:
    """The derivative of `lgamma`; NaN at the negative integers. On the CPU alone.

    Examples:
        >>> await session.run(af.digamma([1.0]))
        array([-0.5772157], dtype=float32)
    """


def igamma(a: NumberLike, x: NumberLike, name: str | None = None) -> Tensor:
    """The lower regularised incomplete gamma function: the integral of t^(a-1) exp(-t) from 0 to x over gamma(a).

    0 at x = 0 and 1 at infinity; NaN where a or x is negative. On the CPU alone.

    Examples:
        >>> await session.run(af.igamma(1.0, 2.0))
        np.float32(0.86466473)
    """


def igammac(a: NumberLike, x: NumberLike, name: str | None = None) -> Tensor:
    """1 - igamma(a, x), exact also where that is near 1. On the CPU alone.

    Examples:
        >>> await session.run(af.igammac(1.0, 2.0))
        np.float32(0.13533528)
    """


def lgamma(x: NumberLike, name: str | None = None) -> Tensor:
    """The logarithm of |gamma(x)|; infinite at 0 and the negative integers. On the CPU alone.

    Examples:
        >>> await session.run(af.lgamma([5.0]))
        array([3.1780539], dtype=float32)
    """


def polygamma(a: NumberLike, x: NumberLike, name: str | None = None) -> Tensor:
    """The derivative of order a, a whole number not below 0, of digamma at x; NaN for another a. On the CPU alone.

    No gradient flows to a, though the value depends on it: `gradients` for it is None.

    Examples:
        >>> await session.run(af.polygamma([1.0], [1.0]))
        array([1.644934], dtype=float32)
    """


def zeta(x: NumberLike, q: NumberLike, name: str | None = None) -> Tensor:
    """Hurwitz's zeta function, the sum of (q + k)^-x for k from 0 on. On the CPU alone.

    Infinite for x = 1 and where q is 0 or a negative integer, NaN for x below 1 and where q is negative and x no
    integer.

    No gradient flows to x, though the value depends on it: `gradients` for it is None.

    Examples:
        >>> await session.run(af.zeta([2.0], [1.0]))
        array([1.644934], dtype=float32)
    """


def histogram_fixed_width(
    values: NumberLike,
    value_range: NumberLike,
    nbins: NumberLike = 100,
    dtype: DTypeLike = ...,
    name: str | None = None,
) -> Tensor:
    """The number of values in each of `nbins` equally wide bins that fill `value_range`.

    Values below and above fall into the first and the last, NaN into none. InvalidArgumentError for an empty range.

    Examples:
        >>> await session.run(af.histogram_fixed_width([0.1, 0.2, 0.9], [0.0, 1.0], nbins=2))
        array([2, 1], dtype=int32)
    """


def histogram_fixed_width_bins(
    values: NumberLike,
    value_range: NumberLike,
    nbins: NumberLike = 100,
    dtype: DTypeLike = ...,
    name: str | None = None,
) -> Tensor:
    """The number of the bin that each value falls into, of `nbins` equally wide ones that fill `value_range`.

    Values below and above fall into the first and the last, NaN into bin -1. InvalidArgumentError for an empty range.

    Examples:
        >>> await session.run(af.histogram_fixed_width_bins([0.1, 0.9, 5.0], [0.0, 1.0], nbins=2))
        array([0, 1, 1], dtype=int32)
    """


def random_index_shuffle(index: NumberLike, seed: NumberLike, max_index: NumberLike, name: str | None = None) -> Tensor:
    """The places of `index` in an order of the numbers from 0 to `max_index` that the seed chooses.

    Each seed is two integers along the last axis. The results for all numbers from 0 to `max_index` are these numbers,
    each once.

    Examples:
        >>> sorted(await session.run(af.random_index_shuffle(af.range(5), seed=[1, 2], max_index=4)))
        [np.int32(0), np.int32(1), np.int32(2), np.int32(3), np.int32(4)]
    """


def betainc(a: NumberLike, b: NumberLike, x: NumberLike, name: str | None = None) -> Tensor:
    """The integral of t^(a-1) (1-t)^(b-1) from 0 to x over Beta(a, b); all three are broadcast together.

    NaN where a or b is not above 0 or x is outside [0, 1]. On the CPU alone.

    No gradient flows to a and b, though the value depends on them: `gradients` for these is None.

    Examples:
        >>> await session.run(af.betainc(1.0, 2.0, 0.5))
        np.float32(0.75)
    """


def multiply_no_nan(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """x times y, and 0 where y is 0, even if x is infinite or NaN.

    Examples:
        >>> await session.run(af.multiply_no_nan([float("inf"), 2.0], [0.0, 4.0]))
        array([0., 8.], dtype=float32)
    """


def xdivy(x: NumberLike, y: NumberLike, name: str | None = None) -> Tensor:
    """x / y, and 0 where x is 0, even if y is 0, infinite or NaN.

    Examples:
        >>> await session.run(af.xdivy([0.0, 3.0], [0.0, 2.0]))
        array([0. , 1.5], dtype=float32)
    """


def argmax(
    input: NumberLike,
    axis: int | None = None,
    name: str | None = None,
    output_type: DTypeLike = ...,
    *,
    dimension: int | None = None,
) -> Tensor:
    """The index of the greatest element along one axis, 0 if None; the first of several.

    The first NaN counts as the extreme, as in NumPy; TensorFlow ignores NaN.

    Raises InvalidArgumentError where the axis is empty.

    Examples:
        >>> await session.run(af.argmax([[1.0, 5.0, 2.0], [7.0, 0.0, 3.0]], axis=1))
        array([1, 0])
    """


def argmin(
    input: NumberLike,
    axis: int | None = None,
    name: str | None = None,
    output_type: DTypeLike = ...,
    *,
    dimension: int | None = None,
) -> Tensor:
    """The index of the smallest element along one axis, 0 if None; the first of several.

    The first NaN counts as the extreme, as in NumPy; TensorFlow ignores NaN.

    Raises InvalidArgumentError where the axis is empty.

    Examples:
        >>> await session.run(af.argmin([[1.0, 5.0, 2.0], [7.0, 0.0, 3.0]], axis=1))
        array([0, 1])
    """


def count_nonzero(
    input_tensor: TensorLike,
    axis: int | Sequence[int] | None = None,
    keepdims: builtins.bool | None = None,
    dtype: DTypeLike = ...,
    name: str | None = None,
    *,
    keep_dims: builtins.bool | None = None,
    reduction_indices: int | Sequence[int] | None = None,
) -> Tensor:
    """How many elements along the axes, all if None, are not 0, not false, or not the empty string.

    Examples:
        >>> await session.run(af.count_nonzero([[0, 1], [2, 3]]))
        np.int64(3)
    """


def reduce_all(
    input_tensor: TensorLike,
    axis: int | Sequence[int] | None = None,
    keepdims: builtins.bool | None = None,
    name: str | None = None,
    *,
    keep_dims: builtins.bool | None = None,
    reduction_indices: int | Sequence[int] | None = None,
) -> Tensor:
    """Whether all elements along the axes, all if None, are true; true of nothing.

    Examples:
        >>> await session.run(af.reduce_all([[True, False], [True, True]], axis=1))
        array([False,  True])
    """


def reduce_any(
    input_tensor: TensorLike,
    axis: int | Sequence[int] | None = None,
    keepdims: builtins.bool | None = None,
    name: str | None = None,
    *,
    keep_dims: builtins.bool | None = None,
    reduction_indices: int | Sequence[int] | None = None,
) -> Tensor:
    """Whether any element along the axes, all if None, is true; false of nothing.

    Examples:
        >>> await session.run(af.reduce_any([[False, False], [True, False]], axis=1))
        array([False,  True])
    """


def reduce_euclidean_norm(
    input_tensor: NumberLike,
    axis: int | Sequence[int] | None = None,
    keepdims: builtins.bool | None = None,
    name: str | None = None,
    *,
    keep_dims: builtins.bool | None = None,
    reduction_indices: int | Sequence[int] | None = None,
) -> Tensor:
    """The square root of the sum of the squares along the axes, of complex numbers of their moduli; 0 of nothing.

    Of integers an integer, the fraction cut off. The gradient is 0 where the norm is.

    Examples:
        >>> await session.run(af.reduce_euclidean_norm([[3.0, 4.0], [5.0, 12.0]], axis=1))
        array([ 5., 13.], dtype=float32)
    """


def reduce_logsumexp(
    input_tensor: NumberLike,
    axis: int | Sequence[int] | None = None,
    keepdims: builtins.bool | None = None,
    name: str | None = None,
    *,
    keep_dims: builtins.bool | None = None,
    reduction_indices: int | Sequence[int] | None = None,
) -> Tensor:
    """log(sum(exp(x))) along the axes, all if None, without overflow on the way; -inf of nothing.

    Examples:
        >>> await session.run(af.reduce_logsumexp([0.0, 0.0]))
        np.float32(0.6931472)
    """


def reduce_max(
    input_tensor: NumberLike,
    axis: int | Sequence[int] | None = None,
    keepdims: builtins.bool | None = None,
    name: str | None = None,
    *,
    keep_dims: builtins.bool | None = None,
    reduction_indices: int | Sequence[int] | None = None,
) -> Tensor:
    """The greatest element along the axes, all if None; NaN if one is; of nothing the lowest value of the dtype.

    The gradient is shared evenly by those that are greatest.

    Examples:
        >>> await session.run(af.reduce_max([[1, 5], [7, 2]], axis=0))
        array([7, 5], dtype=int32)
    """


def reduce_mean(
    input_tensor: NumberLike,
    axis: int | Sequence[int] | None = None,
    keepdims: builtins.bool | None = None,
    name: str | None = None,
    *,
    keep_dims: builtins.bool | None = None,
    reduction_indices: int | Sequence[int] | None = None,
) -> Tensor:
    """The mean along the axes, all if None; NaN of nothing. Of integers an integer, the fraction cut off.

    Examples:
        >>> await session.run(af.reduce_mean([[1.0, 2.0], [3.0, 6.0]], axis=1))
        array([1.5, 4.5], dtype=float32)
    """


def reduce_min(
    input_tensor: NumberLike,
    axis: int | Sequence[int] | None = None,
    keepdims: builtins.bool | None = None,
    name: str | None = None,
    *,
    keep_dims: builtins.bool | None = None,
    reduction_indices: int | Sequence[int] | None = None,
) -> Tensor:
    """The smallest element along the axes, all if None; NaN if one is; of nothing the highest value of the dtype.

    The gradient is shared evenly by those that are smallest.

    Examples:
        >>> await session.run(af.reduce_min([[1, 5], [7, 2]], axis=0))
        array([1, 2], dtype=int32)
    """


def reduce_prod(
    input_tensor: NumberLike,
    axis: int | Sequence[int] | None = None,
    keepdims: builtins.bool | None = None,
    name: str | None = None,
    *,
    keep_dims: builtins.bool | None = None,
    reduction_indices: int | Sequence[int] | None = None,
) -> Tensor:
    """The product along the axes, all if None; 1 of nothing.

    Examples:
        >>> await session.run(af.reduce_prod([2, 3, 4]))
        np.int32(24)
    """


def reduce_sum(
    input_tensor: NumberLike,
    axis: int | Sequence[int] | None = None,
    keepdims: builtins.bool | None = None,
    name: str | None = None,
    *,
    keep_dims: builtins.bool | None = None,
    reduction_indices: int | Sequence[int] | None = None,
) -> Tensor:
    """The sum along the axes, all if None; 0 of nothing.

    Examples:
        >>> await session.run(af.reduce_sum([[1, 2], [3, 4]], axis=1, keepdims=True))
        array([[3],
               [7]], dtype=int32)
    """


def ceil(x: NumberLike, name: str | None = None) -> Tensor:
    """The smallest whole number not below x.

    Examples:
        >>> await session.run(af.ceil([1.2, -1.2]))
        array([ 2., -1.], dtype=float32)
    """


def floor(x: NumberLike, name: str | None = None) -> Tensor:
    """The greatest whole number not above x.

    Examples:
        >>> await session.run(af.floor([1.7, -1.2]))
        array([ 1., -2.], dtype=float32)
    """


def is_finite(x: NumberLike, name: str | None = None) -> Tensor:
    """Whether x is a number and not infinite.

    Examples:
        >>> await session.run(af.is_finite([1.0, float("inf"), float("nan")]))
        array([ True, False, False])
    """


def is_inf(x: NumberLike, name: str | None = None) -> Tensor:
    """Whether x is infinite.

    Examples:
        >>> await session.run(af.is_inf([1.0, float("inf"), float("nan")]))
        array([False,  True, False])
    """


def is_nan(x: NumberLike, name: str | None = None) -> Tensor:
    """Whether x is not a number.

    Examples:
        >>> await session.run(af.is_nan([1.0, float("inf"), float("nan")]))
        array([False, False,  True])
    """


def rint(x: NumberLike, name: str | None = None) -> Tensor:
    """The whole number nearest to x, the even one of two.

    Examples:
        >>> await session.run(af.rint([0.5, 1.5, -1.7]))
        array([ 0.,  2., -2.], dtype=float32)
    """


def segment_max(data: NumberLike, segment_ids: NumberLike, name: str | None = None) -> Tensor:
    """Row s holds the greatest of the rows of `data` whose segment id is s, up to the highest id; 0 if there is none.

    Equal greatest elements share the gradient evenly. InvalidArgumentError if the ids, a vector, are negative or
    not in rising order.

    Examples:
        >>> await session.run(af.segment_max([1, 2, 3, 4], [0, 0, 1, 1]))
        array([2, 4], dtype=int32)
    """


def segment_mean(data: NumberLike, segment_ids: NumberLike, name: str | None = None) -> Tensor:
    """Row s is the mean of the rows of `data` whose segment id is s, up to the highest id; 0 where there is none.

    The mean of integers is truncated to an integer. InvalidArgumentError if the ids, a vector, are negative or not in
    rising order.

    Examples:
        >>> await session.run(af.segment_mean([1.0, 2.0, 3.0], [0, 0, 1]))
        array([1.5, 3. ], dtype=float32)
    """


def segment_min(data: NumberLike, segment_ids: NumberLike, name: str | None = None) -> Tensor:
    """Row s holds the least of the rows of `data` whose segment id is s, up to the highest id; 0 if there is none.

    Equal least elements share the gradient evenly. InvalidArgumentError if the ids, a vector, are negative or
    not in rising order.

    Examples:
        >>> await session.run(af.segment_min([1, 2, 3, 4], [0, 0, 1, 1]))
        array([1, 3], dtype=int32)
    """


def segment_prod(data: NumberLike, segment_ids: NumberLike, name: str | None = None) -> Tensor:
    """Row s is the product of the rows of `data` whose segment id is s, up to the highest id; 1 where there is none.

    InvalidArgumentError if the ids, a vector, are negative or not in rising order.

    Examples:
        >>> await session.run(af.segment_prod([1, 2, 3, 4], [0, 0, 1, 1]))
        array([ 2, 12], dtype=int32)
    """


def segment_sum(data: NumberLike, segment_ids: NumberLike, name: str | None = None) -> Tensor:
    """Row s of the result is the sum of the rows of `data` whose segment id is s, up to the highest id.

    InvalidArgumentError if the ids, a vector, are negative or not in rising order.

    Examples:
        >>> await session.run(af.segment_sum([1, 2, 3, 4], [0, 0, 1, 1]))
        array([3, 7], dtype=int32)
    """


def unsorted_segment_sum(
    data: NumberLike,
    segment_ids: NumberLike,
    num_segments: NumberLike,
    name: str | None = None,
) -> Tensor:
    """Row s of the result is the sum of the rows of `data` whose segment id is s; negative ids are left out.

    The shape of `data` begins with that of `segment_ids`. InvalidArgumentError if an id is not below `num_segments`.

    Examples:
        >>> await session.run(af.unsorted_segment_sum([1, 2, 3], [2, 0, 2], num_segments=3))
        array([2, 0, 4], dtype=int32)
    """


def bessel_i0e(x: NumberLike, name: str | None = None) -> Tensor:
    """exp(-|x|) times the modified Bessel function of the first kind of order 0. On the CPU alone.

    Examples:
        >>> await session.run(af.bessel_i0e([0.0, 1.0]))
        array([1.       , 0.4657596], dtype=float32)
    """


def bessel_i1e(x: NumberLike, name: str | None = None) -> Tensor:
    """exp(-|x|) times the modified Bessel function of the first kind of order 1. On the CPU alone.

    Examples:
        >>> await session.run(af.bessel_i1e([0.0, 1.0]))
        array([0.        , 0.20791042], dtype=float32)
    """


def erf(x: NumberLike, name: str | None = None) -> Tensor:
    """The integral of exp(-t^2) for t from 0 to x, times 2 / sqrt(pi). On the CPU alone.

    Examples:
        >>> await session.run(af.erf([0.0, 1.0]))
        array([0.       , 0.8427008], dtype=float32)
    """


def erfc(x: NumberLike, name: str | None = None) -> Tensor:
    """1 - erf(x), exact also where erf(x) is near 1. On the CPU alone.

    Examples:
        >>> await session.run(af.erfc([0.0, 1.0]))
        array([1.       , 0.1572992], dtype=float32)
    """


def erfinv(x: NumberLike, name: str | None = None) -> Tensor:
    """The number whose `erf` is x; infinite at -1 and 1, NaN beyond. On the CPU alone.

    Examples:
        >>> await session.run(af.erfinv([0.0, 0.5]))
        array([0.        , 0.47693628], dtype=float32)
    """


def ndtri(x: NumberLike, name: str | None = None) -> Tensor:
    """The number below which a share of p of all normal numbers lies; NaN outside [0, 1]. On the CPU alone.

    Examples:
        >>> await session.run(af.ndtri([0.5, 0.975]))
        array([0.       , 1.9599644], dtype=float32)
    """


def unsorted_segment_max(
    data: NumberLike,
    segment_ids: NumberLike,
    num_segments: NumberLike,
    name: str | None = None,
) -> Tensor:
    """Row s holds the greatest of the rows of `data` whose segment id is s; the dtype's lowest value if there is none.

    The shape of `data` begins with that of `segment_ids`; rows with negative ids are left out. Equal greatest
    elements share the gradient evenly. InvalidArgumentError if an id is not below `num_segments`.

    Examples:
        >>> await session.run(af.unsorted_segment_max([1, 2, 3], [1, 0, 1], num_segments=2))
        array([2, 3], dtype=int32)
    """


def unsorted_segment_min(
    data: NumberLike,
    segment_ids: NumberLike,
    num_segments: NumberLike,
    name: str | None = None,
) -> Tensor:
    """Row s holds the least of the rows of `data` whose segment id is s; the dtype's highest value if there is none.

    The shape of `data` begins with that of `segment_ids`; rows with negative ids are left out. Equal least
    elements share the gradient evenly. InvalidArgumentError if an id is not below `num_segments`.

    Examples:
        >>> await session.run(af.unsorted_segment_min([1, 2, 3], [1, 0, 1], num_segments=2))
        array([2, 1], dtype=int32)
    """


def unsorted_segment_prod(
    data: NumberLike,
    segment_ids: NumberLike,
    num_segments: NumberLike,
    name: str | None = None,
) -> Tensor:
    """Row s is the product of the rows of `data` whose segment id is s; 1 if there is none.

    The shape of `data` begins with that of `segment_ids`; rows with negative ids are left out.
    InvalidArgumentError if an id is not below `num_segments`.

    Examples:
        >>> await session.run(af.unsorted_segment_prod([1, 2, 3], [1, 0, 1], num_segments=2))
        array([2, 3], dtype=int32)
    """


def matching_files(pattern: TextLike, name: str | None = None) -> Tensor:
    """The names of the files that match a pattern of `*`, `?` and `[...]`, or one of several patterns, sorted.

    Examples:
        >>> with open("a.txt", "w") as file:
        ...     print("tea", file=file)
        >>> await session.run(af.matching_files("a*.txt"))
        array([b'a.txt'], dtype=object)
    """


def read_file(filename: TextLike, name: str | None = None) -> Tensor:
    """The contents of the file of that name, as a string. NotFoundError if it does not exist.

    Examples:
        >>> with open("tea.txt", "w") as file:
        ...     size = file.write("Assam")
        >>> await session.run(af.read_file("tea.txt"))
        b'Assam'
    """


def write_file(filename: TextLike, contents: TextLike, name: str | None = None) -> Operation:
    """The file of that name holds the string, and the folders above it exist.

    Examples:
        >>> from pathlib import Path
        >>> await session.run(af.write_file("note.txt", "tea"))
        >>> Path("note.txt").read_text()
        'tea'
    """


def decode_base64(input: TextLike, name: str | None = None) -> Tensor:
    """Decodes each string from web-safe base 64, with or without padding. InvalidArgumentError if one is malformed.

    Examples:
        >>> await session.run(af.decode_base64("dGVh"))
        b'tea'
    """


def encode_base64(input: TextLike, pad: builtins.bool = False, name: str | None = None) -> Tensor:
    """Each string in web-safe base 64: letters, digits, - and _; with `pad`, = up to a multiple of four.

    Examples:
        >>> await session.run(af.encode_base64("tea"))
        b'dGVh'
    """


def fingerprint(data: TensorLike, method: str = "farmhash64", name: str | None = None) -> Tensor:
    """Eight bytes for each part of `data` along its first axis, equal for equal parts: their FarmHash Fingerprint64.

    A part of several strings has the fingerprint of the fingerprints of its strings.

    Examples:
        >>> await session.run(af.fingerprint(["a", "b"]))
        array([[227, 117, 223, 182, 101,  66,  69, 179],
               [ 22, 241, 200,  94,  33,  96, 178, 163]], dtype=uint8)
    """


def string_to_hash_bucket(string_tensor: TextLike, num_buckets: int, name: str | None = None) -> Tensor:
    """The bucket of each string, independent of the one that `string_to_hash_bucket_fast` gives.

    Examples:
        >>> await session.run(af.string_to_hash_bucket(["tea"], 10))
        array([7])
    """


def string_to_hash_bucket_fast(input: TextLike, num_buckets: int, name: str | None = None) -> Tensor:
    """The bucket, from 0 to `num_buckets - 1`, of each string: always the same for the same string.

    Examples:
        >>> await session.run(af.string_to_hash_bucket_fast(["tea", "coffee"], 10))
        array([1, 6])
    """


def string_to_hash_bucket_strong(
    input: TensorLike,
    num_buckets: int,
    key: Sequence[int],
    name: str | None = None,
) -> Tensor:
    """The bucket of each string under a secret key of two integers; without it no attacker can choose a bucket.

    Examples:
        >>> await session.run(af.string_to_hash_bucket_strong(["tea"], 10, key=[1, 2]))
        array([1])
    """


def as_string(
    input: NumberLike,
    precision: int = -1,
    scientific: builtins.bool = False,
    shortest: builtins.bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Tensor:
    """Each element as text: integers by their digits, truth values as `true` and `false`, complex ones as `(re,im)`.

    Floats are written as C's `%f` does, with `scientific` as `%e`, with `shortest` as `%g`, with `precision` digits, in
    at least `width` characters, filled up with `fill`, which is one of C's flags: blank, 0, + or -.

    Examples:
        >>> await session.run(af.as_string([1.5, 2.0], precision=2))
        array([b'1.50', b'2.00'], dtype=object)
    """


def regex_full_match(input: TextLike, pattern: str, name: str | None = None) -> Tensor:
    """Whether the whole of each string matches `pattern`, a regular expression as for `regex_replace`.

    Examples:
        >>> await session.run(af.regex_full_match(["cat", "cats"], "c.t"))
        array([ True, False])
    """


def regex_replace(
    input: TextLike,
    pattern: str,
    rewrite: str,
    replace_global: builtins.bool = True,
    name: str | None = None,
) -> Tensor:
    """Each string with all matches of `pattern`, or only the first, replaced by `rewrite`.

    `pattern` is a regular expression of RE2, on UTF-8; `\\0` to `\\9` in `rewrite` stand for the match and its groups.
    Matching takes time linear in the string. Without the package google-re2 (aioflow-engine[re2]) all but simple
    expressions raise UnimplementedError: see `regex`.

    Examples:
        >>> await session.run(af.regex_replace(["a1b22"], "[0-9]+", "-"))
        array([b'a-b-'], dtype=object)
    """


def string_join(inputs: Sequence[TextLike], separator: str = "", name: str | None = None) -> Tensor:
    """The strings at one place of all inputs, joined; inputs of rank 0 are used at every place.

    Examples:
        >>> await session.run(af.string_join([["a", "b"], ["x", "y"]], separator=":"))
        array([b'a:x', b'b:y'], dtype=object)
    """


def string_length(input: TextLike, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """The number of bytes of each string, or with unit UTF8_CHAR of its letters.

    Examples:
        >>> await session.run(af.string_length(["abc", ""]))
        array([3, 0], dtype=int32)
    """


def string_lower(input: TextLike, encoding: str = "", name: str | None = None) -> Tensor:
    """Each string with small letters for capital ones. Only those of ASCII, or with encoding utf-8 all.

    Examples:
        >>> await session.run(af.string_lower(["Abc"]))
        array([b'abc'], dtype=object)
    """


def string_strip(input: TextLike, name: str | None = None) -> Tensor:
    """Each string without blanks, tabs and line ends around it.

    Examples:
        >>> await session.run(af.string_strip(["  a "]))
        array([b'a'], dtype=object)
    """


def string_to_number(string_tensor: TextLike, out_type: DTypeLike = ..., name: str | None = None) -> Tensor:
    """Parses each string as a number; surrounding blanks are ignored. InvalidArgumentError for any other text.

    Examples:
        >>> await session.run(af.string_to_number(["1.5", "2"]))
        array([1.5, 2. ], dtype=float32)
    """


def string_upper(input: TextLike, encoding: str = "", name: str | None = None) -> Tensor:
    """Each string with capital letters for small ones. Only those of ASCII, or with encoding utf-8 all.

    Examples:
        >>> await session.run(af.string_upper(["Abc"]))
        array([b'ABC'], dtype=object)
    """


def substr(input: TextLike, pos: NumberLike, len: NumberLike, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """The part of each string that begins at `pos` and has `len` bytes, or letters with unit UTF8_CHAR, or fewer.

    A negative position counts from the end. All three are broadcast together. InvalidArgumentError if a position lies
    outside its string.

    Examples:
        >>> await session.run(af.substr(["hello"], 1, 3))
        array([b'ell'], dtype=object)
    """


def sparse_to_dense(
    sparse_indices: NumberLike,
    output_shape: NumberLike,
    sparse_values: TensorLike,
    default_value: TensorLike = 0,
    validate_indices: builtins.bool = True,
    name: str | None = None,
) -> Tensor:
    """A dense tensor that holds `sparse_values` at the positions `sparse_indices` and `default_value` elsewhere.

    The positions are the rows of a matrix; a vector or a scalar of numbers is positions in a vector. One value may
    stand for all. InvalidArgumentError if a position lies outside, and, with `validate_indices`, if they are not in
    rising order.

    Examples:
        >>> await session.run(af.sparse_to_dense([1, 3], [4], [7, 8]))
        array([0, 7, 0, 8], dtype=int32)
    """

tensor_scatter_nd_add = tensor_scatter_add
tensor_scatter_sub = tensor_scatter_nd_sub
tensor_scatter_update = tensor_scatter_nd_update
mod = floormod
realdiv = divide
truediv = divide
floor_div = floordiv
div_no_nan = divide_no_nan
lin_space = linspace
reverse_v2 = reverse
