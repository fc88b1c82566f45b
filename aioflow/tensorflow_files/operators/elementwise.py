"""Arithmetic and comparison of elements, and functions of them."""

from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import identity
from aioflow.kernels.array.select import select, where
from aioflow.kernels.array.shapes import broadcast_to
from aioflow.kernels.math.arithmetic import add_n, divide, maximum, minimum
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.division import truncatediv
from aioflow.tensorflow_files.call import Call
from aioflow.tensorflow_files.registry import operator, same

same(
    "Abs=abs ComplexAbs=abs Acos=acos Acosh=acosh Asin=asin Asinh=asinh Atan=atan Atan2=atan2 Atanh=atanh Ceil=ceil "
    "Cos=cos Cosh=cosh Digamma=digamma Erf=erf Erfc=erfc Erfinv=erfinv Exp=exp Expm1=expm1 Floor=floor "
    "IsFinite=is_finite IsInf=is_inf IsNan=is_nan Lgamma=lgamma Log=log Log1p=log1p Ndtri=ndtri Neg=negative "
    "Reciprocal=reciprocal Inv=reciprocal Rint=rint Round=round Rsqrt=rsqrt Sign=sign Sin=sin Sinh=sinh Sqrt=sqrt "
    "Square=square Tan=tan Tanh=tanh LogicalNot=logical_not Invert=invert PopulationCount=population_count Conj=conj"
)
same(
    "Add=add AddV2=add Sub=subtract Mul=multiply MulNoNan=multiply_no_nan RealDiv=divide DivNoNan=div_no_nan "
    "FloorDiv=floordiv FloorMod=mod Mod=truncatemod TruncateDiv=truncatediv TruncateMod=truncatemod Pow=pow "
    "SquaredDifference=squared_difference Maximum=maximum Minimum=minimum Xdivy=xdivy Xlogy=xlogy Xlog1py=xlog1py "
    "Equal=equal NotEqual=not_equal Less=less LessEqual=less_equal Greater=greater GreaterEqual=greater_equal "
    "LogicalAnd=logical_and LogicalOr=logical_or Igamma=igamma Igammac=igammac Zeta=zeta Polygamma=polygamma "
    "Betainc=betainc BitwiseAnd=bitwise_and BitwiseOr=bitwise_or BitwiseXor=bitwise_xor LeftShift=left_shift "
    "RightShift=right_shift NextAfter=nextafter"
)
same("Relu=relu Relu6=relu6 Elu=elu Selu=selu Sigmoid=sigmoid Softplus=softplus Softsign=softsign")
same("Softmax=softmax LogSoftmax=log_softmax L2Loss=l2_loss")


@operator("Div")
def _(call: Call, x: Tensor, y: Tensor) -> Tensor:
    return (truncatediv if x.dtype.is_integer else divide)(x, y, name=call.name)


@operator("Cast")
def _(call: Call, x: Tensor) -> Tensor:
    dtype = call.dtype("DstT")
    return identity(x, name=call.name) if x.dtype is dtype else cast(x, dtype, name=call.name)


@operator("AddN", "AccumulateNV2")
def _(call: Call, *inputs: Tensor) -> Tensor:
    return add_n(list(inputs), name=call.name)


@operator("ClipByValue")
def _(call: Call, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return minimum(maximum(x, low), high, name=call.name)


@operator("Select")
def _(call: Call, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Elements by a condition of the same shape, or rows by a vector."""
    return where(condition, x, y, name=call.name)


@operator("SelectV2")
def _(call: Call, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return select(condition, x, y, name=call.name)


@operator("BroadcastTo")
def _(call: Call, x: Tensor, shape: Tensor) -> Tensor:
    return broadcast_to(x, shape, name=call.name)
