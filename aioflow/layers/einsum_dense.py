"""A dense layer whose product is given in Einstein's notation."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from aioflow.graph.operation import Tensor
from aioflow.kernels.linalg.products import einsum
from aioflow.layers import by_name
from aioflow.layers.layer import Layer, one_shape
from aioflow.layers.numbers import is_sequence, whole
from aioflow.library.variables import Variable
from aioflow.tensors.recursion import safe_repr
from aioflow.tensors.shape import TensorShape

_FORM: Final = re.compile(r"((?:\.\.\.)?[a-zA-Z]+(?:\.\.\.)?),([a-zA-Z]+)->((?:\.\.\.)?[a-zA-Z]+(?:\.\.\.)?)")


class EinsumDense(Layer):
    """activation(einsum(equation, inputs, kernel) + bias).

        EinsumDense("ab,bc->ac", 64)                                a Dense(64)
        EinsumDense("abc,cd->abd", (None, 64), bias_axes="d")       the same for each step of sequences
        EinsumDense("...x,xy->...y", 64)                            the same along the last axis of any inputs

    The weights are `kernel`, of the sizes of its letters, and, with `bias_axes`, `bias`.

    Args:
        equation: letters for the axes of inputs and kernel, and of the result; "..." stands for further axes.
        output_shape: the sizes of the result without the batch; None where it is that of the inputs.
        activation: a name or a function.
        bias_axes: the letters of the result along which a bias is added; none by default.

    Examples:
        >>> layer = af.layers.EinsumDense("abc,cd->abd", output_shape=(None, 64))
        >>> layer(np.ones((2, 5, 16), np.float32)).shape
        TensorShape([2, 5, 64])
    """

    supports_masking = casts_integers = True

    def __init__(
        self,
        equation: str,
        output_shape: int | Sequence[int | None],
        activation: Any = None,
        bias_axes: str | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **options: Any,
    ) -> None:
        """ValueError for an equation that is not such as "ab,bc->ac", or bias axes that the result lacks."""
        super().__init__(**options)
        self.equation: Final = equation
        self._terms: Final = _parsed(equation)
        self.output_shape: Final = tuple(
            [None if size is None else whole("a size of output_shape", size, 1) for size in _listed(output_shape)]
        )
        self.bias_axes: Final = bias_axes or ""
        if not set(self.bias_axes) <= set(self._terms.result):
            raise ValueError(f"bias_axes are letters of {self._terms.result!r}, not {safe_repr(bias_axes)}")
        self.activation: Final = by_name.activation(activation)
        self._kernel_options = by_name.weight(kernel_initializer, kernel_regularizer, kernel_constraint)
        self._bias_options = by_name.weight(bias_initializer, bias_regularizer, bias_constraint)
        self._activity = by_name.regularizer(activity_regularizer)

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias. ValueError if the size of a letter is not known."""
        sizes = self._sizes(one_shape(input_shape))
        kernel = [self._known(letter, sizes) for letter in self._terms.kernel]
        self.kernel: Variable = self.add_weight("kernel", kernel, None, *self._kernel_options)
        self.bias: Variable | None = None
        if self.bias_axes:
            self.bias = self.add_weight("bias", self._bias_shape(input_shape, sizes), None, *self._bias_options)

    def call(self, inputs: Tensor) -> Tensor:
        """The result."""
        outputs = einsum(self.equation, inputs, self.kernel)
        if self.bias is not None:
            outputs = outputs + self.bias
        if self.activation is not None:
            outputs = self.activation(outputs)
        self.add_activity(self._activity, outputs)
        return outputs

    def _sizes(self, given: TensorShape) -> Mapping[str, int | None]:
        """The sizes of the letters. ValueError if inputs or output shape have other numbers of axes."""
        if given.ndims is None:
            raise ValueError("the rank of the inputs must be known")
        batch = [] if self._terms.result.startswith("...") else [None]
        wanted = _by_letter(self._terms.result, [*batch, *self.output_shape], "output_shape with the batch")
        found = {**wanted, **_by_letter(self._terms.inputs, given.as_list(), "the input")}
        for letter, size in wanted.items():
            if None not in (size, found[letter]) and size != found[letter]:
                raise ValueError(f"the axis {letter!r} has size {found[letter]} in inputs, and {size} in the result")
            found[letter] = found[letter] if size is None else size
        return found

    def _known(self, letter: str, sizes: Mapping[str, int | None]) -> int:
        size = sizes.get(letter)
        if size is None:
            raise ValueError(f"the size of the axis {letter!r} of {self.equation!r} must be known")
        return size

    def _bias_shape(self, given: TensorShape, sizes: Mapping[str, int | None]) -> list[int]:
        """The sizes of the bias: 1 for axes without one that follow an axis with one."""
        head, dots, tail = self._terms.result.partition("...")
        letters = [*head, *["."] * (len(given.as_list()) - len(_letters(self._terms.inputs)) if dots else 0), *tail]
        first = min(letters.index(letter) for letter in self.bias_axes)
        return [self._known(each, sizes) if each in self.bias_axes else 1 for each in letters[first:]]


class _Terms(NamedTuple):
    """The letters of inputs, kernel and result."""

    inputs: str
    kernel: str
    result: str


def _parsed(equation: str) -> _Terms:
    found = _FORM.fullmatch(equation.replace(" ", "")) if isinstance(equation, str) else None
    if found is None or found[1].count("...") != found[3].count("...") or found[1].count("...") > 1:
        raise ValueError(f"equation is one of inputs and a kernel, as 'ab,bc->ac', not {safe_repr(equation)}")
    return _Terms(*found.groups())


def _listed(given: Any) -> list[Any]:
    return list(given) if is_sequence(given) else [given]


def _letters(term: str) -> str:
    return term.replace("...", "")


def _by_letter(term: str, sizes: Sequence[int | None], what: str) -> dict[str, int | None]:
    """The sizes by letter. ValueError unless there are as many, or more with "..."."""
    head, dots, tail = term.partition("...")
    if len(sizes) < len(_letters(term)) or (not dots and len(sizes) > len(term)):
        raise ValueError(f"{what} has {len(sizes)} axes, and {term!r} is for {len(_letters(term))}")
    return dict(zip(head, sizes, strict=False)) | dict(zip(tail, sizes[len(sizes) - len(tail) :], strict=True))
