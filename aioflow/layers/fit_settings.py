"""What `fit`, `evaluate` and `predict` were asked for, checked before anything is built: epochs, data, output."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from aioflow.layers.batches import ArrayBatches, GivenBatches, batches_of
from aioflow.layers.callback import Callback
from aioflow.layers.conversion import AreInputs, are_arrays, is_list_of_batches
from aioflow.layers.fed import Batch
from aioflow.layers.numbers import whole
from aioflow.layers.progress_bar import ProgressBar, ResultLine
from aioflow.tensors.recursion import safe_repr

Batches = ArrayBatches | GivenBatches


class Schedule(NamedTuple):
    """When training ends, and when it validates.

    Attributes:
        epochs: the epochs.
        validation_freq: the number of epochs between two validations.
    """

    epochs: range
    validation_freq: int

    @classmethod
    def checked(cls, epochs: Any, initial_epoch: Any, validation_freq: Any) -> "Schedule":
        """From the settings of `fit`. TypeError for numbers that are not whole, ValueError for too small ones."""
        first, last = whole("initial_epoch", initial_epoch, 0), whole("epochs", epochs, 0)
        return cls(range(first, last), whole("validation_freq", validation_freq, 1))

    def validates(self, epoch: int) -> bool:
        """Whether the epoch ends with a validation."""
        return (epoch + 1) % self.validation_freq == 0


class Data(NamedTuple):
    """The batches of a training.

    Attributes:
        training: those to train with.
        validation: those to validate with, if there are any.
    """

    training: Batches
    validation: Batches | None


class Validation(NamedTuple):
    """The settings of `fit` for validation, as given, and which lists that are batches have inputs alone."""

    data: Any
    split: float
    batch_size: int | None
    steps: int | None
    are_inputs: AreInputs


def data_of(given: Batches, validation: Validation, weighted: Callable[[Batch], Batch] | None) -> Data:
    """The batches to train with, which `weighted` gives the weights of classes, and those to validate with.

    ValueError or TypeError for data or settings that do not fit.
    """
    if validation.steps is not None:
        whole("validation_steps", validation.steps, 1)
    other = _validation(validation)
    split = validation.split if other is None else 0.0
    if not split and weighted is None:
        return Data(given, other)
    if not isinstance(given, ArrayBatches):
        what = "validation_split divides" if split else "class_weight is for"
        raise ValueError(f"{what} arrays: an iterable gives weights itself, and needs validation_data")
    batches, part = given.divided(split, validation.steps) if split else (given, other)
    return Data(batches if weighted is None else batches.changed(weighted), part)


def _validation(given: Validation) -> Batches | None:
    """The batches of `validation_data`, if there are any."""
    data = given.data
    if data is None:
        return None
    if isinstance(data, (tuple, list)) and not is_list_of_batches(data):
        if not 2 <= len(data) <= 3:
            raise ValueError(f"validation_data is (inputs, labels), perhaps with weights, not {len(data)} values")
        x, y, weights = (*data, None)[:3]
        return batches_of(x, y, weights, given.batch_size, given.steps, given.are_inputs)
    if are_arrays(data):
        raise ValueError(f"validation_data is (inputs, labels), or batches of both, not {safe_repr(data)}")
    return batches_of(data, None, None, given.batch_size, given.steps, given.are_inputs)


def told(callbacks: Callback | Iterable[Callback] | None, verbose: int | str, bars: bool) -> list[Callback]:
    """The callbacks, after the one that writes what `verbose` asks for: a bar for training, else a line at the end.

    TypeError for something that is no callback and no list of them, ValueError for another `verbose`.
    """
    if isinstance(callbacks, Callback):
        callbacks = [callbacks]
    if not isinstance(callbacks, Iterable | None) or isinstance(callbacks, (str, bytes)):
        raise TypeError(f"callbacks is a callback, or a list of these, not {safe_repr(callbacks)}")
    if not isinstance(verbose, (int, str)) or verbose not in ("auto", 0, 1, 2):
        raise ValueError(f"verbose is 'auto', 0, 1 or 2, not {safe_repr(verbose)}")
    shown: list[Callback] = []
    if verbose != 0:
        shown.append(ProgressBar(None if verbose == "auto" else verbose == 1) if bars else ResultLine())
    return [*shown, *(callbacks or ())]
