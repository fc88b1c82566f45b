"""`af.nn`: functions of neural networks."""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow import depth_to_space as depth_to_space
from aioflow import sigmoid as sigmoid
from aioflow import space_to_depth as space_to_depth
from aioflow import tanh as tanh
from aioflow.kernels.array.sorting import top_k as top_k
from aioflow.kernels.array.space_to_batch import space_to_batch as space_to_batch
from aioflow.kernels.math.division import log_sigmoid as log_sigmoid
from aioflow.kernels.nn.convolution import conv2d as conv2d
from aioflow.kernels.nn.convolution import conv2d_backprop_filter as conv2d_backprop_filter
from aioflow.kernels.nn.convolution import conv2d_backprop_input as conv2d_backprop_input
from aioflow.kernels.nn.convolution import conv2d_transpose as conv2d_transpose
from aioflow.kernels.nn.convolution_nd import conv1d as conv1d
from aioflow.kernels.nn.convolution_nd import conv1d_transpose as conv1d_transpose
from aioflow.kernels.nn.convolution_nd import conv3d as conv3d
from aioflow.kernels.nn.convolution_nd import conv3d_backprop_filter as conv3d_backprop_filter
from aioflow.kernels.nn.convolution_nd import conv3d_backprop_filter as conv3d_backprop_filter_v2
from aioflow.kernels.nn.convolution_nd import conv3d_transpose as conv3d_transpose
from aioflow.kernels.nn.depthwise import depthwise_conv2d_native as depthwise_conv2d_native
from aioflow.kernels.nn.depthwise import depthwise_conv2d_native_backprop_filter as depthwise_conv2d_backprop_filter
from aioflow.kernels.nn.depthwise import depthwise_conv2d_native_backprop_filter as depthwise_conv2d_native_backprop_filter
from aioflow.kernels.nn.depthwise import depthwise_conv2d_native_backprop_input as depthwise_conv2d_backprop_input
from aioflow.kernels.nn.depthwise import depthwise_conv2d_native_backprop_input as depthwise_conv2d_native_backprop_input
from aioflow.kernels.nn.losses import sigmoid_cross_entropy_with_logits as sigmoid_cross_entropy_with_logits
from aioflow.kernels.nn.losses import softmax_cross_entropy_with_logits as softmax_cross_entropy_with_logits
from aioflow.kernels.nn.losses import softmax_cross_entropy_with_logits_v2 as softmax_cross_entropy_with_logits_v2
from aioflow.kernels.nn.losses import sparse_softmax_cross_entropy_with_logits as sparse_softmax_cross_entropy_with_logits
from aioflow.kernels.nn.normalisation import fused_batch_norm as fused_batch_norm
from aioflow.kernels.nn.pooling import avg_pool as avg_pool
from aioflow.kernels.nn.pooling import avg_pool3d as avg_pool3d
from aioflow.kernels.nn.pooling import max_pool as max_pool
from aioflow.kernels.nn.pooling import max_pool3d as max_pool3d
from aioflow.kernels.nn.pooling_argmax import max_pool_with_argmax as max_pool_with_argmax
from aioflow.kernels.nn.weighted_sampling import all_candidate_sampler as all_candidate_sampler
from aioflow.kernels.nn.weighted_sampling import fixed_unigram_candidate_sampler as fixed_unigram_candidate_sampler
from aioflow.library import nn_experimental as experimental
from aioflow.library import rnn_cell as rnn_cell
from aioflow.library.approximate_top_k import approx_max_k as approx_max_k
from aioflow.library.approximate_top_k import approx_min_k as approx_min_k
from aioflow.library.average_loss import compute_average_loss as compute_average_loss
from aioflow.library.average_loss import scale_regularization_loss as scale_regularization_loss
from aioflow.library.embedding import embedding_lookup as embedding_lookup
from aioflow.library.embedding import embedding_lookup_sparse as embedding_lookup_sparse
from aioflow.library.embedding import safe_embedding_lookup_sparse as safe_embedding_lookup_sparse
from aioflow.library.fractional_pooling import fractional_avg_pool as fractional_avg_pool
from aioflow.library.fractional_pooling import fractional_max_pool as fractional_max_pool
from aioflow.library.learned_sampler import learned_unigram_candidate_sampler as learned_unigram_candidate_sampler
from aioflow.library.lstm import lstm as lstm
from aioflow.library.math import in_top_k as in_top_k
from aioflow.library.math import log_softmax as log_softmax
from aioflow.library.math import softmax as softmax
from aioflow.library.math import softplus as softplus
from aioflow.library.math import softsign as softsign
from aioflow.library.nn_convolution import atrous_conv2d as atrous_conv2d
from aioflow.library.nn_convolution import atrous_conv2d_transpose as atrous_conv2d_transpose
from aioflow.library.nn_convolution import avg_pool1d as avg_pool1d
from aioflow.library.nn_convolution import avg_pool2d as avg_pool2d
from aioflow.library.nn_convolution import avg_pool_v2 as avg_pool_v2
from aioflow.library.nn_convolution import conv_transpose as conv_transpose
from aioflow.library.nn_convolution import convolution as convolution
from aioflow.library.nn_convolution import depthwise_conv2d as depthwise_conv2d
from aioflow.library.nn_convolution import max_pool1d as max_pool1d
from aioflow.library.nn_convolution import max_pool2d as max_pool2d
from aioflow.library.nn_convolution import max_pool_v2 as max_pool_v2
from aioflow.library.nn_convolution import pool as pool
from aioflow.library.nn_convolution import separable_conv2d as separable_conv2d
from aioflow.library.nn_ctc import collapse_repeated as collapse_repeated
from aioflow.library.nn_ctc import ctc_beam_search_decoder as ctc_beam_search_decoder
from aioflow.library.nn_ctc import ctc_beam_search_decoder_v2 as ctc_beam_search_decoder_v2
from aioflow.library.nn_ctc import ctc_greedy_decoder as ctc_greedy_decoder
from aioflow.library.nn_ctc import ctc_loss as ctc_loss
from aioflow.library.nn_ctc import ctc_loss_v2 as ctc_loss_v2
from aioflow.library.nn_ctc import ctc_unique_labels as ctc_unique_labels
from aioflow.library.nn_functions import batch_norm_with_global_normalization as batch_norm_with_global_normalization
from aioflow.library.nn_functions import batch_normalization as batch_normalization
from aioflow.library.nn_functions import crelu as crelu
from aioflow.library.nn_functions import dropout as dropout
from aioflow.library.nn_functions import gelu as gelu
from aioflow.library.nn_functions import hard_sigmoid as hard_sigmoid
from aioflow.library.nn_functions import l2_normalize as l2_normalize
from aioflow.library.nn_functions import layer_normalization as layer_normalization
from aioflow.library.nn_functions import log_poisson_loss as log_poisson_loss
from aioflow.library.nn_functions import moments as moments
from aioflow.library.nn_functions import normalize_moments as normalize_moments
from aioflow.library.nn_functions import relu_layer as relu_layer
from aioflow.library.nn_functions import silu as silu
from aioflow.library.nn_functions import silu as swish
from aioflow.library.nn_functions import sufficient_statistics as sufficient_statistics
from aioflow.library.nn_functions import weighted_cross_entropy_with_logits as weighted_cross_entropy_with_logits
from aioflow.library.nn_functions import weighted_moments as weighted_moments
from aioflow.library.nn_functions import xw_plus_b as xw_plus_b
from aioflow.library.nn_functions import zero_fraction as zero_fraction
from aioflow.library.nn_morphology import dilation2d as dilation2d
from aioflow.library.nn_morphology import erosion2d as erosion2d
from aioflow.library.nn_sampling import compute_accidental_hits as compute_accidental_hits
from aioflow.library.nn_sampling import log_uniform_candidate_sampler as log_uniform_candidate_sampler
from aioflow.library.nn_sampling import nce_loss as nce_loss
from aioflow.library.nn_sampling import sampled_softmax_loss as sampled_softmax_loss
from aioflow.library.nn_sampling import uniform_candidate_sampler as uniform_candidate_sampler
from aioflow.library.quantised_nn import quantized_avg_pool as quantized_avg_pool
from aioflow.library.quantised_nn import quantized_conv2d as quantized_conv2d
from aioflow.library.quantised_nn import quantized_max_pool as quantized_max_pool
from aioflow.library.quantised_nn import quantized_relu_x as quantized_relu_x
from aioflow.library.raw_rnn import raw_rnn as raw_rnn
from aioflow.library.rnn import bidirectional_dynamic_rnn as bidirectional_dynamic_rnn
from aioflow.library.rnn import dynamic_rnn as dynamic_rnn
from aioflow.library.rnn import static_bidirectional_rnn as static_bidirectional_rnn
from aioflow.library.rnn import static_rnn as static_rnn
from aioflow.library.space_to_batch import with_space_to_batch as with_space_to_batch
from aioflow.library.state_saving_rnn import static_state_saving_rnn as static_state_saving_rnn

__all__ = ["all_candidate_sampler", "approx_max_k", "approx_min_k", "atrous_conv2d", "atrous_conv2d_transpose",
    "avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "avg_pool_v2", "batch_norm_with_global_normalization",
    "batch_normalization", "bias_add", "bidirectional_dynamic_rnn", "collapse_repeated", "compute_accidental_hits",
    "compute_average_loss", "conv1d", "conv1d_transpose", "conv2d", "conv2d_backprop_filter", "conv2d_backprop_input",
    "conv2d_transpose", "conv3d", "conv3d_backprop_filter", "conv3d_backprop_filter_v2", "conv3d_transpose",
    "conv_transpose", "convolution", "crelu", "ctc_beam_search_decoder", "ctc_beam_search_decoder_v2",
    "ctc_greedy_decoder", "ctc_loss", "ctc_loss_v2", "ctc_unique_labels", "depth_to_space", "depthwise_conv2d",
    "depthwise_conv2d_backprop_filter", "depthwise_conv2d_backprop_input", "depthwise_conv2d_native",
    "depthwise_conv2d_native_backprop_filter", "depthwise_conv2d_native_backprop_input", "dilation2d", "dropout",
    "dynamic_rnn", "elu", "embedding_lookup", "embedding_lookup_sparse", "erosion2d", "experimental",
    "fixed_unigram_candidate_sampler", "fractional_avg_pool", "fractional_max_pool", "fused_batch_norm", "gelu",
    "hard_sigmoid", "in_top_k", "l2_loss", "l2_normalize", "layer_normalization", "leaky_relu",
    "learned_unigram_candidate_sampler", "local_response_normalization", "log_poisson_loss", "log_sigmoid",
    "log_softmax", "log_uniform_candidate_sampler", "lrn", "lstm", "max_pool", "max_pool1d", "max_pool2d", "max_pool3d",
    "max_pool_v2", "max_pool_with_argmax", "moments", "nce_loss", "normalize_moments", "pool", "quantized_avg_pool",
    "quantized_conv2d", "quantized_max_pool", "quantized_relu_x", "raw_rnn", "relu", "relu6", "relu_layer", "rnn_cell",
    "safe_embedding_lookup_sparse", "sampled_softmax_loss", "scale_regularization_loss", "selu", "separable_conv2d",
    "sigmoid", "sigmoid_cross_entropy_with_logits", "silu", "softmax", "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2", "softplus", "softsign", "space_to_batch", "space_to_depth",
    "sparse_softmax_cross_entropy_with_logits", "static_bidirectional_rnn", "static_rnn", "static_state_saving_rnn",
    "sufficient_statistics", "swish", "tanh", "top_k", "uniform_candidate_sampler",
    "weighted_cross_entropy_with_logits", "weighted_moments", "with_space_to_batch", "xw_plus_b", "zero_fraction"]

def l2_loss(t: NumberLike, name: str | None = None) -> Tensor:
    """Half the sum of the squares of all elements.

    Examples:
        >>> await session.run(af.nn.l2_loss([3.0, 4.0]))
        np.float32(12.5)
    """


def bias_add(value: NumberLike, bias: NumberLike, data_format: str | None = None, name: str | None = None) -> Tensor:
    """`value` with `bias`, one number per channel, added; channels are the last axis, or the second with 'NCHW'.

    Examples:
        >>> await session.run(af.nn.bias_add([[1.0, 2.0], [3.0, 4.0]], [10.0, 20.0]))
        array([[11., 22.],
               [13., 24.]], dtype=float32)
    """


def elu(features: NumberLike, name: str | None = None) -> Tensor:
    """`features` above 0, else exp(features) - 1.

    Examples:
        >>> await session.run(af.nn.elu([-1.0, 2.0]))
        array([-0.63212055,  2.        ], dtype=float32)
    """


def leaky_relu(features: NumberLike, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """`features` where they are above 0, else `alpha` times them.

    Examples:
        >>> await session.run(af.nn.leaky_relu([-1.0, 2.0]))
        array([-0.2,  2. ], dtype=float32)
    """


def relu(features: NumberLike, name: str | None = None) -> Tensor:
    """`features` where they are above 0, else 0.

    Examples:
        >>> await session.run(af.nn.relu([-1.0, 2.0]))
        array([0., 2.], dtype=float32)
    """


def relu6(features: NumberLike, name: str | None = None) -> Tensor:
    """`features` held between 0 and 6.

    Examples:
        >>> await session.run(af.nn.relu6([-1.0, 2.0, 9.0]))
        array([0., 2., 6.], dtype=float32)
    """


def selu(features: NumberLike, name: str | None = None) -> Tensor:
    """scale * (`features` above 0, else alpha * (exp(features) - 1)): keeps mean 0 and variance 1 [Klambauer 2017].

    Examples:
        >>> await session.run(af.nn.selu([-1.0, 2.0]))
        array([-1.1113307,  2.101402 ], dtype=float32)
    """


def local_response_normalization(
    input: NumberLike,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """`input` / (bias + alpha * s) ** beta, where s sums the squares of the channels up to `depth_radius` away.

    Channels are the last axis.

    Examples:
        >>> await session.run(af.nn.local_response_normalization(af.ones([1, 1, 1, 3]), depth_radius=1)[0, 0, 0])
        array([0.57735026, 0.5       , 0.57735026], dtype=float32)
    """

lrn = local_response_normalization
