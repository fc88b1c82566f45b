"""A signature: one of the functions that a model offers, by names of its inputs and outputs."""

import dataclasses
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, get_args

from aioflow.graph.graph import Graph
from aioflow.graph.operation import Tensor
from aioflow.tensors import dtypes
from aioflow.tensors.recursion import safe_repr

Method: TypeAlias = Literal["predict", "classify", "regress"]
"""What the outputs mean. The outputs of `classify` are `classes`, `scores` or both, that of `regress` is `outputs`."""
SERVING_DEFAULT: Final = "serving_default"
"""The name of the signature that is meant where no other is named."""
_OUTPUTS: Final = {"classify": {"classes", "scores"}, "regress": {"outputs"}}


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """A function of a model: the tensors to feed and to fetch, by the names that callers use.

        af.saved_model.Signature(inputs={"x": images}, outputs={"y": probabilities})

    Attributes:
        inputs: the tensors to feed.
        outputs: the tensors to fetch.
        method: what the outputs mean.
        repeat_while: the output that makes the signature one iteration of a loop: as long as an element of it is true,
            another iteration follows, in which the outputs are fed to the inputs of the same names. It is bool.

    Raises:
        TypeError: an input or output is not a tensor, or has no name.
        ValueError: there are no outputs, two inputs are one tensor, or names, graphs or dtypes do not fit the method or
            the loop.

    Examples:
        >>> x = af.placeholder(af.float32, [None, 2], name="x")
        >>> af.saved_model.Signature(inputs={"x": x}, outputs={"y": af.reduce_sum(x, axis=1)}).describe()
        '(x: float32[?, 2]) -> (y: float32[?])'
    """

    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    method: Method = "predict"
    repeat_while: str | None = None

    def __post_init__(self) -> None:
        for kind in ("inputs", "outputs"):
            _check_tensors(kind, getattr(self, kind))
        if not self.outputs:
            raise ValueError("a signature needs at least one output")
        if len({tensor.graph for tensor in (*self.inputs.values(), *self.outputs.values())}) > 1:
            raise ValueError("the inputs and outputs of a signature belong to one graph")
        if len(set(self.inputs.values())) < len(self.inputs):
            raise ValueError(f"two inputs of a signature are one tensor: {_describe(self.inputs)}")
        _check_method(self.method, self.outputs)
        if self.repeat_while is not None:
            _check_loop(self)

    @property
    def graph(self) -> Graph:
        """The graph of its tensors."""
        return next(iter(self.outputs.values())).graph

    def describe(self) -> str:
        """Return its inputs and outputs in one line, such as `(x: float32[?, 784]) -> (y: float32[?, 10])`."""
        return f"({_describe(self.inputs)}) -> ({_describe(self.outputs)})"


def _describe(tensors: Mapping[str, Tensor]) -> str:
    return ", ".join(f"{name}: {tensor.spec}" for name, tensor in tensors.items())


def _check_tensors(kind: str, tensors: object) -> None:
    if not isinstance(tensors, Mapping):
        raise TypeError(f"the {kind} of a signature are tensors by name, as {{'x': tensor}}, not {safe_repr(tensors)}")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"the {kind} of a signature have names of at least one letter, not {safe_repr(name)}")
        if not isinstance(tensor, Tensor) or tensor.dtype is dtypes.resource:
            raise TypeError(f"{name!r} of the {kind} of a signature is a tensor, not {safe_repr(tensor)}")


def _check_method(method: object, outputs: Mapping[str, Tensor]) -> None:
    if method not in get_args(Method):
        raise ValueError(f"a signature's method is one of {', '.join(get_args(Method))}, not {safe_repr(method)}")
    allowed = _OUTPUTS.get(str(method), set(outputs))
    if not set(outputs) <= allowed:
        wanted = " and ".join(sorted(allowed))
        raise ValueError(f"the outputs of a signature to {method} are {wanted}, not {', '.join(sorted(outputs))}")


def _check_loop(signature: Signature) -> None:
    more = signature.outputs.get(signature.repeat_while or "")
    if more is None or more.dtype is not dtypes.bool_:
        raise ValueError(f"repeat_while is the name of a bool output, not {safe_repr(signature.repeat_while)}")
    for name in signature.inputs.keys() & signature.outputs.keys():
        given, back = signature.inputs[name].spec, signature.outputs[name].spec
        if given.dtype is not back.dtype or not given.shape.is_compatible_with(back.shape):
            raise ValueError(f"output {name!r} is {back}, and is fed to the input {name!r}, which is {given}")


def check_signatures(graph: Graph, signatures: object) -> None:
    """TypeError or ValueError unless these are signatures by name, at least one, and all of that graph."""
    if not isinstance(signatures, Mapping) or not signatures:
        raise ValueError("a model needs signatures, such as {'serving_default': af.saved_model.Signature(...)}")
    for name, signature in signatures.items():
        if not isinstance(name, str) or not name or not isinstance(signature, Signature):
            raise TypeError(f"signatures are af.saved_model.Signature by name, not {safe_repr({name: signature})}")
        if signature.graph is not graph:
            raise ValueError(f"signature {name!r} belongs to another graph than that of the session")
