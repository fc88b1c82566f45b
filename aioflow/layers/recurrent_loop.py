"""The loop over the steps of sequences that all recurrent layers share."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from aioflow.graph.operation import Operation, Tensor
from aioflow.kernels.array.arrays import reverse
from aioflow.kernels.array.concat import stack, unstack
from aioflow.kernels.array.constants import identity, zeros_like
from aioflow.kernels.array.select import where
from aioflow.kernels.array.sequence import reverse_sequence
from aioflow.kernels.array.shapes import expand_dims
from aioflow.kernels.math.casting import cast
from aioflow.layers import by_name
from aioflow.layers.layer import Layer, one_shape
from aioflow.layers.masks import with_axes
from aioflow.layers.numbers import switch
from aioflow.library.control import control_dependencies
from aioflow.library.rnn import dynamic_rnn, static_rnn
from aioflow.library.rnn_cell_base import RNNCell, sizes_of
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import int32
from aioflow.tensors.shape import TensorShape

STATES: Final = "__layer_states"
"""The collection of a graph that holds the states of stateful layers."""
Step = Callable[[Tensor, Sequence[Tensor]], Sequence[Tensor]]
"""From the inputs of a step and the states before it to the states after it, of which the first is the output."""


class Steps(NamedTuple):
    """What a loop repeats.

    Attributes:
        inputs: the inputs of the steps, [batch, steps, ...].
        function: computes a step.
    """

    inputs: Tensor
    function: Step


class Loop(Layer):
    """What recurrent layers share: the loop over the steps.

    Args:
        return_sequences: whether the outputs of all steps are returned, [batch, steps, ...], or the last one.
        return_state: whether the last states are returned, too, after the outputs.
        go_backwards: whether the steps are taken from the last to the first, and outputs returned in that order.
        stateful: whether a run begins with the states after the run before, which are weights of the layer, so that
            sequences go on from batch to batch, until `Model.reset_states`. The size of batches must be known.
        unroll: whether each step has operations of its own, instead of a loop. The number of steps must be known.
        zero_output_for_mask: whether the outputs of masked steps are zeros, instead of the output of the step before.
        activity_regularizer: a name or a function whose result for the outputs is added to the loss.
    """

    supports_masking = casts_integers = True
    _rank: int | None = 3
    """The number of axes of the inputs; None if it may be any."""

    def __init__(
        self,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        zero_output_for_mask: bool = False,
        activity_regularizer: Any = None,
        **options: Any,
    ) -> None:
        """TypeError for a flag that is neither True nor False."""
        super().__init__(**options)
        self.return_sequences: Final = switch("return_sequences", return_sequences)
        self.return_state: Final = switch("return_state", return_state)
        self.go_backwards: Final = switch("go_backwards", go_backwards)
        self.stateful: Final = switch("stateful", stateful)
        self.unroll: Final = switch("unroll", unroll)
        self.zero_output_for_mask: bool = switch("zero_output_for_mask", zero_output_for_mask)
        self._activity = by_name.regularizer(activity_regularizer)
        self._kept: list[Variable] = []

    # What a subclass defines

    def state_sizes(self, input_shape: TensorShape) -> Sequence[Any]:
        """The sizes of the states for inputs of that shape, that of the output first."""
        raise NotImplementedError

    def steps(self, inputs: Tensor, training: bool) -> contextlib.AbstractContextManager[Steps]:
        """What to repeat for these inputs, whose steps are in the order in which they are taken."""
        raise NotImplementedError

    def all_steps(
        self, inputs: Tensor, first: list[Any] | None, lengths: Any, training: bool
    ) -> tuple[Tensor, list[Tensor]] | None:
        """All outputs and the last states by one operation; None if the steps must be repeated.

        `first` are the states before the first step, zeros by default.
        """
        return None

    def states_given(self, initial_state: Any, inputs: Tensor) -> list[Tensor]:
        """The states before the first step, that of the output first, as a caller gives them."""
        return list(initial_state) if isinstance(initial_state, (list, tuple)) else [initial_state]

    def states_shown(self, states: list[Tensor]) -> list[Any]:
        """The last states, as they are returned."""
        return states

    # What they share

    def build(self, input_shape: Any) -> None:
        """Make the states, if they stay from run to run. ValueError if the size of batches is unknown."""
        if not self.stateful:
            return
        batch = one_shape(input_shape, self._rank).as_list()[0]
        if batch is None:
            raise ValueError(
                "a stateful layer needs a known size of batches: begin a model with af.layers.Input(shape, batch_size)"
            )
        self._kept = [
            self.add_weight(f"state_{number}", [batch, *sizes_of(size)], initializer="zeros", trainable=False)
            for number, size in enumerate(self.state_sizes(input_shape))
        ]
        for state in self._kept:
            state.graph.add_to_collection(STATES, state)

    def call(
        self, inputs: Tensor, initial_state: Any = None, sequence_length: Any = None, mask: Any = None,
        training: bool = False,
    ) -> Any:  # fmt: skip
        """The outputs.

        Args:
            inputs: [batch, steps, ...].
            initial_state: the state before the first step, or the list of states; zeros by default.
            sequence_length: the lengths [batch] of the sequences; later outputs are zeros, and the states stay.
            mask: booleans [batch, steps]: in other steps the states stay, and the output before is repeated.
            training: whether inputs and outputs are dropped.
        """
        one_shape(inputs.shape, self._rank)
        kept = None if mask is None else expand_dims(mask, -1)
        if self.go_backwards:
            inputs = backwards(inputs, sequence_length)
            kept = None if kept is None else backwards(kept, sequence_length)
        first: list[Any] | None = [identity(each) for each in self._kept] or None
        if initial_state is not None:
            first = self.states_given(initial_state, inputs)
        sizes = self.state_sizes(inputs.shape)
        if first is not None and len(first) != len(sizes):
            raise ValueError(f"initial_state has {len(first)} states, and the layer has {len(sizes)}")
        whole = None if self.unroll or kept is not None else self.all_steps(inputs, first, sequence_length, training)
        if whole is None:
            with self.steps(inputs, training) as steps:
                cell = _Cell(sizes, steps.function, self.dtype)
                whole = self._repeated(cell, steps.inputs, first, kept, sequence_length)
        outputs, *states = self._remembered([whole[0], *whole[1]])
        if kept is not None and self.zero_output_for_mask:
            outputs = where(with_axes(kept, outputs), outputs, zeros_like(outputs))
        result = outputs if self.return_sequences else states[0]
        self.add_activity(self._activity, result)
        return [result, *self.states_shown(states)] if self.return_state else result

    def compute_mask(self, inputs: Tensor, mask: Any = None) -> Any:
        """That of the inputs, if the outputs of all steps are returned."""
        return mask if self.return_sequences else None

    def _repeated(
        self, cell: "_Cell", inputs: Tensor, first: list[Any] | None, kept: Tensor | None, lengths: Any
    ) -> tuple[Tensor, list[Tensor]]:
        """All outputs, and the last states."""
        state, kind = (None, self.dtype) if first is None else (tuple(first), None)
        if not self.unroll:
            given = inputs if kept is None else (inputs, kept)
            outputs, last = dynamic_rnn(cell, given, lengths, state, kind)
            return outputs, list(last)
        rows: list[Any] = unstack(inputs, axis=1)
        if kept is not None:
            rows = list(zip(rows, unstack(kept, axis=1), strict=True))
        each, last = static_rnn(cell, rows, state, kind, lengths)
        return stack(each, axis=1), list(last)

    def _remembered(self, results: list[Tensor]) -> list[Tensor]:
        """The outputs and the states, once the states are kept for the next run."""
        done: list[Operation] = [each.assign(new).op for each, new in zip(self._kept, results[1:], strict=False)]
        if not done:
            return results
        with control_dependencies(done):
            return [identity(each) for each in results]


class _Cell(RNNCell):
    """A step of a recurrent layer, as a cell without variables of its own."""

    def __init__(self, sizes: Sequence[Any], step: Step, dtype: Any) -> None:
        super().__init__(dtype=dtype)
        self._sizes = tuple(sizes)
        self._step = step

    @property
    def state_size(self) -> Any:
        """The sizes of the states."""
        return self._sizes

    @property
    def output_size(self) -> Any:
        """The size of the output."""
        return self._sizes[0]

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Any]:
        """The output and the states; those before, where the mask beside the inputs is false."""
        given, kept = inputs if isinstance(inputs, tuple) else (inputs, None)
        states = self._step(given, state)
        if kept is not None:
            states = [where(with_axes(kept, new), new, old) for new, old in zip(states, state, strict=True)]
        return states[0], tuple(states)


def backwards(inputs: Tensor, lengths: Any) -> Tensor:
    """The steps in the opposite order, each sequence from its own length on."""
    if lengths is None:
        return reverse(inputs, [1])
    return reverse_sequence(inputs, cast(lengths, int32), seq_axis=1, batch_axis=0)
