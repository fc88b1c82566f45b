"""`af.layers`: parts of networks with weights of their own, and models composed of them.

A layer is called with tensors, and adds operations to their graph; see `Layer`. Everything stays an ordinary graph: the
weights are variables, the outputs tensors, and any session runs them.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.layers.adaptive_pooling": (
        "AdaptiveAveragePooling1D AdaptiveAveragePooling2D AdaptiveAveragePooling3D AdaptiveMaxPooling1D "
        "AdaptiveMaxPooling2D AdaptiveMaxPooling3D"
    ),
    "aioflow.layers.attention": "AdditiveAttention Attention",
    "aioflow.layers.convolution": (
        "Conv1D Conv1DTranspose Conv2D Conv2DTranspose Conv3D Conv3DTranspose Convolution1D=Conv1D "
        "Convolution1DTranspose=Conv1DTranspose Convolution2D=Conv2D Convolution2DTranspose=Conv2DTranspose "
        "Convolution3D=Conv3D Convolution3DTranspose=Conv3DTranspose"
    ),
    "aioflow.layers.activation_layers": "Activation ELU LeakyReLU PReLU ReLU Softmax",
    "aioflow.layers.convolutional_lstm": "ConvLSTM1D ConvLSTM2D ConvLSTM3D",
    "aioflow.layers.core": "Dense Embedding Flatten Identity Lambda Masking Permute RepeatVector Reshape",
    "aioflow.layers.depthwise": (
        "DepthwiseConv1D DepthwiseConv2D SeparableConv1D SeparableConv2D SeparableConvolution1D=SeparableConv1D "
        "SeparableConvolution2D=SeparableConv2D"
    ),
    "aioflow.layers.einsum_dense": "EinsumDense",
    "aioflow.layers.layer": "Layer",
    "aioflow.layers.merging": "Add Average Concatenate Dot Maximum Minimum Multiply Subtract",
    "aioflow.layers.model": "Input",
    "aioflow.layers.multi_head_attention": "GroupQueryAttention MultiHeadAttention",
    "aioflow.layers.noise": (
        "ActivityRegularization AlphaDropout Dropout GaussianDropout GaussianNoise SpatialDropout1D SpatialDropout2D "
        "SpatialDropout3D"
    ),
    "aioflow.layers.normalization": (
        "BatchNormalization GroupNormalization LayerNormalization RMSNormalization UnitNormalization"
    ),
    "aioflow.layers.pooling": (
        "AveragePooling1D AveragePooling2D AveragePooling3D AvgPool1D=AveragePooling1D AvgPool2D=AveragePooling2D "
        "AvgPool3D=AveragePooling3D GlobalAveragePooling1D GlobalAveragePooling2D GlobalAveragePooling3D "
        "GlobalAvgPool1D=GlobalAveragePooling1D GlobalAvgPool2D=GlobalAveragePooling2D "
        "GlobalAvgPool3D=GlobalAveragePooling3D GlobalMaxPool1D=GlobalMaxPooling1D GlobalMaxPool2D=GlobalMaxPooling2D "
        "GlobalMaxPool3D=GlobalMaxPooling3D GlobalMaxPooling1D GlobalMaxPooling2D GlobalMaxPooling3D "
        "MaxPool1D=MaxPooling1D MaxPool2D=MaxPooling2D MaxPool3D=MaxPooling3D MaxPooling1D MaxPooling2D MaxPooling3D"
    ),
    "aioflow.layers.preprocessing": "Normalization Rescaling",
    "aioflow.layers.recurrent": "Bidirectional GRU LSTM RNN SimpleRNN TimeDistributed",
    "aioflow.layers.recurrent_cells": "GRUCell LSTMCell SimpleRNNCell StackedRNNCells",
    "aioflow.layers.reversible_embedding": "ReversibleEmbedding",
    "aioflow.layers.resizing": (
        "Cropping1D Cropping2D Cropping3D UpSampling1D UpSampling2D UpSampling3D ZeroPadding1D ZeroPadding2D "
        "ZeroPadding3D"
    ),
    "aioflow.layers.spectral_normalization": "SpectralNormalization",
})  # fmt: skip
