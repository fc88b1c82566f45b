"""`af.nn`: what neural networks are made of."""

from aioflow.kernels.array.sorting import in_top_k, top_k
from aioflow.kernels.array.space_to_batch import depth_to_space, space_to_batch, space_to_depth
from aioflow.kernels.math.elementwise import sigmoid, tanh
from aioflow.kernels.math.logistic import log_sigmoid
from aioflow.kernels.math.reduction import l2_loss
from aioflow.kernels.nn.activation import bias_add, elu, leaky_relu, relu, relu6, selu, softplus, softsign
from aioflow.kernels.nn.convolution import conv2d, conv2d_backprop_filter, conv2d_backprop_input, conv2d_transpose
from aioflow.kernels.nn.convolution_nd import (
    conv1d,
    conv1d_transpose,
    conv3d,
    conv3d_backprop_filter,
    conv3d_transpose,
)
from aioflow.kernels.nn.depthwise import (
    depthwise_conv2d_native,
    depthwise_conv2d_native_backprop_filter,
    depthwise_conv2d_native_backprop_input,
)
from aioflow.kernels.nn.local_response import local_response_normalization, lrn
from aioflow.kernels.nn.losses import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
)
from aioflow.kernels.nn.normalisation import fused_batch_norm
from aioflow.kernels.nn.pooling import avg_pool, max_pool
from aioflow.kernels.nn.pooling_argmax import max_pool_with_argmax
from aioflow.kernels.nn.pooling_nd import avg_pool3d, max_pool3d
from aioflow.kernels.nn.softmax import log_softmax, softmax
from aioflow.library import rnn_cell as rnn_cell
from aioflow.library.embedding import embedding_lookup
from aioflow.library.embedding_sparse import embedding_lookup_sparse, safe_embedding_lookup_sparse
from aioflow.library.nn_activation import crelu, gelu, hard_sigmoid, swish
from aioflow.library.nn_convolution import (
    atrous_conv2d,
    atrous_conv2d_transpose,
    avg_pool1d,
    convolution,
    depthwise_conv2d,
    max_pool1d,
    pool,
    separable_conv2d,
)
from aioflow.library.nn_functions import (
    batch_normalization,
    dropout,
    l2_normalize,
    log_poisson_loss,
    moments,
    relu_layer,
    weighted_cross_entropy_with_logits,
    xw_plus_b,
    zero_fraction,
)
from aioflow.library.nn_morphology import dilation2d, erosion2d
from aioflow.library.nn_normalisation import (
    batch_norm_with_global_normalization,
    layer_normalization,
    normalize_moments,
    sufficient_statistics,
    weighted_moments,
)
from aioflow.library.nn_sampling import (
    compute_accidental_hits,
    log_uniform_candidate_sampler,
    nce_loss,
    sampled_softmax_loss,
    uniform_candidate_sampler,
)
from aioflow.library.nn_windows import (
    avg_pool2d,
    avg_pool_v2,
    conv_transpose,
    max_pool2d,
    max_pool_v2,
    with_space_to_batch,
)
from aioflow.library.rnn import dynamic_rnn, static_rnn
from aioflow.library.rnn_bidirectional import bidirectional_dynamic_rnn, static_bidirectional_rnn
from aioflow.library.rnn_raw import raw_rnn

conv3d_backprop_filter_v2 = conv3d_backprop_filter
depthwise_conv2d_backprop_filter = depthwise_conv2d_native_backprop_filter
depthwise_conv2d_backprop_input = depthwise_conv2d_native_backprop_input

__all__ = [
    "atrous_conv2d", "atrous_conv2d_transpose", "avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "avg_pool_v2",
    "batch_norm_with_global_normalization", "batch_normalization", "bias_add", "bidirectional_dynamic_rnn",
    "compute_accidental_hits", "conv1d", "conv1d_transpose", "conv2d", "conv2d_backprop_filter",
    "conv2d_backprop_input", "conv2d_transpose", "conv3d", "conv3d_backprop_filter", "conv3d_backprop_filter_v2",
    "conv3d_transpose", "conv_transpose", "convolution", "crelu", "depth_to_space", "depthwise_conv2d",
    "depthwise_conv2d_backprop_filter", "depthwise_conv2d_backprop_input", "depthwise_conv2d_native",
    "depthwise_conv2d_native_backprop_filter", "depthwise_conv2d_native_backprop_input", "dilation2d", "dropout",
    "dynamic_rnn", "elu", "embedding_lookup", "embedding_lookup_sparse", "erosion2d", "fused_batch_norm", "gelu",
    "hard_sigmoid", "in_top_k", "l2_loss", "l2_normalize", "layer_normalization", "leaky_relu",
    "local_response_normalization", "log_poisson_loss", "log_sigmoid", "log_softmax", "log_uniform_candidate_sampler",
    "lrn", "max_pool", "max_pool1d", "max_pool2d", "max_pool3d", "max_pool_v2", "max_pool_with_argmax", "moments",
    "nce_loss", "normalize_moments", "pool", "raw_rnn", "relu", "relu6", "relu_layer",
    "safe_embedding_lookup_sparse", "sampled_softmax_loss", "selu", "separable_conv2d", "sigmoid",
    "sigmoid_cross_entropy_with_logits", "softmax", "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2", "softplus", "softsign", "space_to_batch", "space_to_depth",
    "sparse_softmax_cross_entropy_with_logits", "static_bidirectional_rnn", "static_rnn", "sufficient_statistics",
    "swish", "tanh", "top_k", "uniform_candidate_sampler", "weighted_cross_entropy_with_logits", "weighted_moments",
    "with_space_to_batch", "xw_plus_b", "zero_fraction",
]  # fmt: skip
