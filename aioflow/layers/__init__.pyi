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

from aioflow.layers.attention import AdditiveAttention as AdditiveAttention
from aioflow.layers.attention import Attention as Attention
from aioflow.layers.attention import MultiHeadAttention as MultiHeadAttention
from aioflow.layers.convolution import Conv1D as Conv1D
from aioflow.layers.convolution import Conv1DTranspose as Conv1DTranspose
from aioflow.layers.convolution import Conv2D as Conv2D
from aioflow.layers.convolution import Conv2DTranspose as Conv2DTranspose
from aioflow.layers.convolution import Conv3D as Conv3D
from aioflow.layers.convolution import Conv3DTranspose as Conv3DTranspose
from aioflow.layers.convolution import DepthwiseConv2D as DepthwiseConv2D
from aioflow.layers.convolution import SeparableConv1D as SeparableConv1D
from aioflow.layers.convolution import SeparableConv2D as SeparableConv2D
from aioflow.layers.core import Activation as Activation
from aioflow.layers.core import Dense as Dense
from aioflow.layers.core import Dropout as Dropout
from aioflow.layers.core import Embedding as Embedding
from aioflow.layers.core import Flatten as Flatten
from aioflow.layers.core import GaussianNoise as GaussianNoise
from aioflow.layers.core import Lambda as Lambda
from aioflow.layers.core import Masking as Masking
from aioflow.layers.core import Permute as Permute
from aioflow.layers.core import RepeatVector as RepeatVector
from aioflow.layers.core import Reshape as Reshape
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
from aioflow.layers.normalization import BatchNormalization as BatchNormalization
from aioflow.layers.normalization import GroupNormalization as GroupNormalization
from aioflow.layers.normalization import LayerNormalization as LayerNormalization
from aioflow.layers.pooling import AveragePooling1D as AveragePooling1D
from aioflow.layers.pooling import AveragePooling2D as AveragePooling2D
from aioflow.layers.pooling import AveragePooling3D as AveragePooling3D
from aioflow.layers.pooling import GlobalAveragePooling1D as GlobalAveragePooling1D
from aioflow.layers.pooling import GlobalAveragePooling2D as GlobalAveragePooling2D
from aioflow.layers.pooling import GlobalAveragePooling3D as GlobalAveragePooling3D
from aioflow.layers.pooling import GlobalMaxPooling1D as GlobalMaxPooling1D
from aioflow.layers.pooling import GlobalMaxPooling2D as GlobalMaxPooling2D
from aioflow.layers.pooling import GlobalMaxPooling3D as GlobalMaxPooling3D
from aioflow.layers.pooling import MaxPooling1D as MaxPooling1D
from aioflow.layers.pooling import MaxPooling2D as MaxPooling2D
from aioflow.layers.pooling import MaxPooling3D as MaxPooling3D
from aioflow.layers.recurrent import Bidirectional as Bidirectional
from aioflow.layers.recurrent import GRU as GRU
from aioflow.layers.recurrent import LSTM as LSTM
from aioflow.layers.recurrent import SimpleRNN as SimpleRNN
from aioflow.layers.recurrent import TimeDistributed as TimeDistributed
from aioflow.layers.resizing import Cropping1D as Cropping1D
from aioflow.layers.resizing import Cropping2D as Cropping2D
from aioflow.layers.resizing import Cropping3D as Cropping3D
from aioflow.layers.resizing import UpSampling1D as UpSampling1D
from aioflow.layers.resizing import UpSampling2D as UpSampling2D
from aioflow.layers.resizing import UpSampling3D as UpSampling3D
from aioflow.layers.resizing import ZeroPadding1D as ZeroPadding1D
from aioflow.layers.resizing import ZeroPadding2D as ZeroPadding2D
from aioflow.layers.resizing import ZeroPadding3D as ZeroPadding3D

__all__ = ["Activation", "Add", "AdditiveAttention", "Attention", "Average", "AveragePooling1D", "AveragePooling2D",
    "AveragePooling3D", "BatchNormalization", "Bidirectional", "Concatenate", "Conv1D", "Conv1DTranspose", "Conv2D",
    "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "Cropping1D", "Cropping2D", "Cropping3D", "Dense",
    "DepthwiseConv2D", "Dot", "Dropout", "Embedding", "Flatten", "GRU", "GaussianNoise", "GlobalAveragePooling1D",
    "GlobalAveragePooling2D", "GlobalAveragePooling3D", "GlobalMaxPooling1D", "GlobalMaxPooling2D",
    "GlobalMaxPooling3D", "GroupNormalization", "Input", "LSTM", "Lambda", "Layer", "LayerNormalization", "Masking",
    "MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "Maximum", "Minimum", "MultiHeadAttention", "Multiply", "Permute",
    "RepeatVector", "Reshape", "SeparableConv1D", "SeparableConv2D", "SimpleRNN", "Subtract", "TimeDistributed",
    "UpSampling1D", "UpSampling2D", "UpSampling3D", "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D"]
