"""`af.layers`: parts of networks with weights of their own, and models composed of them.

A layer is called with tensors, and adds operations to their graph; see `Layer`. Everything stays an ordinary graph: the
weights are variables, the outputs tensors, and any session runs them.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.layers.activation_layers import Activation as Activation
from aioflow.layers.activation_layers import ELU as ELU
from aioflow.layers.activation_layers import LeakyReLU as LeakyReLU
from aioflow.layers.activation_layers import PReLU as PReLU
from aioflow.layers.activation_layers import ReLU as ReLU
from aioflow.layers.activation_layers import Softmax as Softmax
from aioflow.layers.adaptive_pooling import AdaptiveAveragePooling1D as AdaptiveAveragePooling1D
from aioflow.layers.adaptive_pooling import AdaptiveAveragePooling2D as AdaptiveAveragePooling2D
from aioflow.layers.adaptive_pooling import AdaptiveAveragePooling3D as AdaptiveAveragePooling3D
from aioflow.layers.adaptive_pooling import AdaptiveMaxPooling1D as AdaptiveMaxPooling1D
from aioflow.layers.adaptive_pooling import AdaptiveMaxPooling2D as AdaptiveMaxPooling2D
from aioflow.layers.adaptive_pooling import AdaptiveMaxPooling3D as AdaptiveMaxPooling3D
from aioflow.layers.attention import AdditiveAttention as AdditiveAttention
from aioflow.layers.attention import Attention as Attention
from aioflow.layers.convolution import Conv1D as Conv1D
from aioflow.layers.convolution import Conv1D as Convolution1D
from aioflow.layers.convolution import Conv1DTranspose as Conv1DTranspose
from aioflow.layers.convolution import Conv1DTranspose as Convolution1DTranspose
from aioflow.layers.convolution import Conv2D as Conv2D
from aioflow.layers.convolution import Conv2D as Convolution2D
from aioflow.layers.convolution import Conv2DTranspose as Conv2DTranspose
from aioflow.layers.convolution import Conv2DTranspose as Convolution2DTranspose
from aioflow.layers.convolution import Conv3D as Conv3D
from aioflow.layers.convolution import Conv3D as Convolution3D
from aioflow.layers.convolution import Conv3DTranspose as Conv3DTranspose
from aioflow.layers.convolution import Conv3DTranspose as Convolution3DTranspose
from aioflow.layers.convolutional_lstm import ConvLSTM1D as ConvLSTM1D
from aioflow.layers.convolutional_lstm import ConvLSTM2D as ConvLSTM2D
from aioflow.layers.convolutional_lstm import ConvLSTM3D as ConvLSTM3D
from aioflow.layers.core import Dense as Dense
from aioflow.layers.core import Embedding as Embedding
from aioflow.layers.core import Flatten as Flatten
from aioflow.layers.core import Identity as Identity
from aioflow.layers.core import Lambda as Lambda
from aioflow.layers.core import Masking as Masking
from aioflow.layers.core import Permute as Permute
from aioflow.layers.core import RepeatVector as RepeatVector
from aioflow.layers.core import Reshape as Reshape
from aioflow.layers.depthwise import DepthwiseConv1D as DepthwiseConv1D
from aioflow.layers.depthwise import DepthwiseConv2D as DepthwiseConv2D
from aioflow.layers.depthwise import SeparableConv1D as SeparableConv1D
from aioflow.layers.depthwise import SeparableConv1D as SeparableConvolution1D
from aioflow.layers.depthwise import SeparableConv2D as SeparableConv2D
from aioflow.layers.depthwise import SeparableConv2D as SeparableConvolution2D
from aioflow.layers.einsum_dense import EinsumDense as EinsumDense
from aioflow.layers.layer import Layer as Layer
from aioflow.layers.merging import Add as Add
from aioflow.layers.merging import Average as Average
from aioflow.layers.merging import Concatenate as Concatenate
from aioflow.layers.merging import Dot as Dot
from aioflow.layers.merging import Maximum as Maximum
from aioflow.layers.merging import Minimum as Minimum
from aioflow.layers.merging import Multiply as Multiply
from aioflow.layers.merging import Subtract as Subtract
from aioflow.layers.model import Input as Input
from aioflow.layers.multi_head_attention import GroupQueryAttention as GroupQueryAttention
from aioflow.layers.multi_head_attention import MultiHeadAttention as MultiHeadAttention
from aioflow.layers.noise import ActivityRegularization as ActivityRegularization
from aioflow.layers.noise import AlphaDropout as AlphaDropout
from aioflow.layers.noise import Dropout as Dropout
from aioflow.layers.noise import GaussianDropout as GaussianDropout
from aioflow.layers.noise import GaussianNoise as GaussianNoise
from aioflow.layers.noise import SpatialDropout1D as SpatialDropout1D
from aioflow.layers.noise import SpatialDropout2D as SpatialDropout2D
from aioflow.layers.noise import SpatialDropout3D as SpatialDropout3D
from aioflow.layers.normalization import BatchNormalization as BatchNormalization
from aioflow.layers.normalization import GroupNormalization as GroupNormalization
from aioflow.layers.normalization import LayerNormalization as LayerNormalization
from aioflow.layers.normalization import RMSNormalization as RMSNormalization
from aioflow.layers.normalization import UnitNormalization as UnitNormalization
from aioflow.layers.pooling import AveragePooling1D as AveragePooling1D
from aioflow.layers.pooling import AveragePooling1D as AvgPool1D
from aioflow.layers.pooling import AveragePooling2D as AveragePooling2D
from aioflow.layers.pooling import AveragePooling2D as AvgPool2D
from aioflow.layers.pooling import AveragePooling3D as AveragePooling3D
from aioflow.layers.pooling import AveragePooling3D as AvgPool3D
from aioflow.layers.pooling import GlobalAveragePooling1D as GlobalAveragePooling1D
from aioflow.layers.pooling import GlobalAveragePooling1D as GlobalAvgPool1D
from aioflow.layers.pooling import GlobalAveragePooling2D as GlobalAveragePooling2D
from aioflow.layers.pooling import GlobalAveragePooling2D as GlobalAvgPool2D
from aioflow.layers.pooling import GlobalAveragePooling3D as GlobalAveragePooling3D
from aioflow.layers.pooling import GlobalAveragePooling3D as GlobalAvgPool3D
from aioflow.layers.pooling import GlobalMaxPooling1D as GlobalMaxPool1D
from aioflow.layers.pooling import GlobalMaxPooling1D as GlobalMaxPooling1D
from aioflow.layers.pooling import GlobalMaxPooling2D as GlobalMaxPool2D
from aioflow.layers.pooling import GlobalMaxPooling2D as GlobalMaxPooling2D
from aioflow.layers.pooling import GlobalMaxPooling3D as GlobalMaxPool3D
from aioflow.layers.pooling import GlobalMaxPooling3D as GlobalMaxPooling3D
from aioflow.layers.pooling import MaxPooling1D as MaxPool1D
from aioflow.layers.pooling import MaxPooling1D as MaxPooling1D
from aioflow.layers.pooling import MaxPooling2D as MaxPool2D
from aioflow.layers.pooling import MaxPooling2D as MaxPooling2D
from aioflow.layers.pooling import MaxPooling3D as MaxPool3D
from aioflow.layers.pooling import MaxPooling3D as MaxPooling3D
from aioflow.layers.preprocessing import Normalization as Normalization
from aioflow.layers.preprocessing import Rescaling as Rescaling
from aioflow.layers.recurrent import Bidirectional as Bidirectional
from aioflow.layers.recurrent import GRU as GRU
from aioflow.layers.recurrent import LSTM as LSTM
from aioflow.layers.recurrent import RNN as RNN
from aioflow.layers.recurrent import SimpleRNN as SimpleRNN
from aioflow.layers.recurrent import TimeDistributed as TimeDistributed
from aioflow.layers.recurrent_cells import GRUCell as GRUCell
from aioflow.layers.recurrent_cells import LSTMCell as LSTMCell
from aioflow.layers.recurrent_cells import SimpleRNNCell as SimpleRNNCell
from aioflow.layers.recurrent_cells import StackedRNNCells as StackedRNNCells
from aioflow.layers.resizing import Cropping1D as Cropping1D
from aioflow.layers.resizing import Cropping2D as Cropping2D
from aioflow.layers.resizing import Cropping3D as Cropping3D
from aioflow.layers.resizing import UpSampling1D as UpSampling1D
from aioflow.layers.resizing import UpSampling2D as UpSampling2D
from aioflow.layers.resizing import UpSampling3D as UpSampling3D
from aioflow.layers.resizing import ZeroPadding1D as ZeroPadding1D
from aioflow.layers.resizing import ZeroPadding2D as ZeroPadding2D
from aioflow.layers.resizing import ZeroPadding3D as ZeroPadding3D
from aioflow.layers.reversible_embedding import ReversibleEmbedding as ReversibleEmbedding
from aioflow.layers.spectral_normalization import SpectralNormalization as SpectralNormalization

__all__ = ["Activation", "ActivityRegularization", "AdaptiveAveragePooling1D", "AdaptiveAveragePooling2D",
    "AdaptiveAveragePooling3D", "AdaptiveMaxPooling1D", "AdaptiveMaxPooling2D", "AdaptiveMaxPooling3D", "Add",
    "AdditiveAttention", "AlphaDropout", "Attention", "Average", "AveragePooling1D", "AveragePooling2D",
    "AveragePooling3D", "AvgPool1D", "AvgPool2D", "AvgPool3D", "BatchNormalization", "Bidirectional", "Concatenate",
    "Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "ConvLSTM1D", "ConvLSTM2D",
    "ConvLSTM3D", "Convolution1D", "Convolution1DTranspose", "Convolution2D", "Convolution2DTranspose", "Convolution3D",
    "Convolution3DTranspose", "Cropping1D", "Cropping2D", "Cropping3D", "Dense", "DepthwiseConv1D", "DepthwiseConv2D",
    "Dot", "Dropout", "ELU", "EinsumDense", "Embedding", "Flatten", "GRU", "GRUCell", "GaussianDropout",
    "GaussianNoise", "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D", "GlobalAvgPool1D",
    "GlobalAvgPool2D", "GlobalAvgPool3D", "GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D", "GlobalMaxPooling1D",
    "GlobalMaxPooling2D", "GlobalMaxPooling3D", "GroupNormalization", "GroupQueryAttention", "Identity", "Input",
    "LSTM", "LSTMCell", "Lambda", "Layer", "LayerNormalization", "LeakyReLU", "Masking", "MaxPool1D", "MaxPool2D",
    "MaxPool3D", "MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "Maximum", "Minimum", "MultiHeadAttention", "Multiply",
    "Normalization", "PReLU", "Permute", "RMSNormalization", "RNN", "ReLU", "RepeatVector", "Rescaling", "Reshape",
    "ReversibleEmbedding", "SeparableConv1D", "SeparableConv2D", "SeparableConvolution1D", "SeparableConvolution2D",
    "SimpleRNN", "SimpleRNNCell", "Softmax", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D",
    "SpectralNormalization", "StackedRNNCells", "Subtract", "TimeDistributed", "UnitNormalization", "UpSampling1D",
    "UpSampling2D", "UpSampling3D", "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D"]
