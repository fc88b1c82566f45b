"""`af.nn`: functions of neural networks."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.kernels.array.sorting": "in_top_k top_k",
    "aioflow.kernels.array.space_to_batch": "depth_to_space space_to_batch space_to_depth",
    "aioflow.kernels.math.division": "log_sigmoid",
    "aioflow.kernels.math.elementwise": "sigmoid tanh",
    "aioflow.kernels.math.reduction": "l2_loss",
    "aioflow.kernels.nn.activation": "bias_add elu leaky_relu relu relu6 selu softplus softsign",
    "aioflow.kernels.nn.convolution": "conv2d conv2d_backprop_filter conv2d_backprop_input conv2d_transpose",
    "aioflow.kernels.nn.convolution_nd": (
        "conv1d conv1d_transpose conv3d conv3d_backprop_filter conv3d_backprop_filter_v2=conv3d_backprop_filter "
        "conv3d_transpose"
    ),
    "aioflow.kernels.nn.depthwise": (
        "depthwise_conv2d_backprop_filter=depthwise_conv2d_native_backprop_filter "
        "depthwise_conv2d_backprop_input=depthwise_conv2d_native_backprop_input depthwise_conv2d_native "
        "depthwise_conv2d_native_backprop_filter depthwise_conv2d_native_backprop_input"
    ),
    "aioflow.kernels.nn.local_response": "local_response_normalization lrn",
    "aioflow.kernels.nn.losses": (
        "sigmoid_cross_entropy_with_logits softmax_cross_entropy_with_logits softmax_cross_entropy_with_logits_v2 "
        "sparse_softmax_cross_entropy_with_logits"
    ),
    "aioflow.kernels.nn.normalisation": "fused_batch_norm",
    "aioflow.kernels.nn.pooling": "avg_pool avg_pool3d max_pool max_pool3d",
    "aioflow.kernels.nn.pooling_argmax": "max_pool_with_argmax",
    "aioflow.kernels.nn.softmax": "log_softmax softmax",
    "aioflow.kernels.nn.weighted_sampling": "all_candidate_sampler fixed_unigram_candidate_sampler",
    "aioflow.library": "experimental=nn_experimental rnn_cell",
    "aioflow.library.approximate_top_k": "approx_max_k approx_min_k",
    "aioflow.library.average_loss": "compute_average_loss scale_regularization_loss",
    "aioflow.library.embedding": "embedding_lookup embedding_lookup_sparse safe_embedding_lookup_sparse",
    "aioflow.library.fractional_pooling": "fractional_avg_pool fractional_max_pool",
    "aioflow.library.learned_sampler": "learned_unigram_candidate_sampler",
    "aioflow.library.lstm": "lstm",
    "aioflow.library.nn_convolution": (
        "atrous_conv2d atrous_conv2d_transpose avg_pool1d avg_pool2d avg_pool_v2 conv_transpose convolution "
        "depthwise_conv2d max_pool1d max_pool2d max_pool_v2 pool separable_conv2d"
    ),
    "aioflow.library.nn_ctc": (
        "collapse_repeated ctc_beam_search_decoder ctc_beam_search_decoder_v2 ctc_greedy_decoder ctc_loss ctc_loss_v2 "
        "ctc_unique_labels"
    ),
    "aioflow.library.nn_functions": (
        "batch_norm_with_global_normalization batch_normalization crelu dropout gelu hard_sigmoid l2_normalize "
        "layer_normalization log_poisson_loss moments normalize_moments relu_layer silu sufficient_statistics "
        "swish=silu weighted_cross_entropy_with_logits weighted_moments xw_plus_b zero_fraction"
    ),
    "aioflow.library.nn_morphology": "dilation2d erosion2d",
    "aioflow.library.nn_sampling": (
        "compute_accidental_hits log_uniform_candidate_sampler nce_loss sampled_softmax_loss "
        "uniform_candidate_sampler"
    ),
    "aioflow.library.quantised_nn": "quantized_avg_pool quantized_conv2d quantized_max_pool quantized_relu_x",
    "aioflow.library.raw_rnn": "raw_rnn",
    "aioflow.library.rnn": "bidirectional_dynamic_rnn dynamic_rnn static_bidirectional_rnn static_rnn",
    "aioflow.library.space_to_batch": "with_space_to_batch",
    "aioflow.library.state_saving_rnn": "static_state_saving_rnn",
})  # fmt: skip
