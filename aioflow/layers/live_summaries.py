"""A callback that shows histograms of variables, and pictures, on the live page of a training."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from aioflow import errors
from aioflow.graph.operation import Tensor
from aioflow.kernels.data.summary import histogram_summary
from aioflow.layers.callback import Callback, Logs
from aioflow.layers.numbers import whole
from aioflow.library.variables import Variable
from aioflow.session.training_report import TrainingReport
from aioflow.summary.functions import merge
from aioflow.tensors.dtypes import string
from aioflow.tensors.recursion import safe_repr

if TYPE_CHECKING:
    from aioflow.layers.trainable import Trainable

Shown = Iterable[Variable | Tensor]
"""Variables, and summaries that operations of `af.summary` make."""


class LiveSummaries(Callback):
    """Shows histograms of variables, and other summaries, such as pictures, on the live page, `af.dashboard`.

    They are computed after epochs, and only while a page is open or a recording runs. Values that are not finite, or
    are not there yet, have no histogram: an event on the page says so, and training goes on.

    Args:
        of: variables for histograms, and summaries in the graph of the model, or a function that returns them, which is
            called once with the model, in its graph. By default all weights of the model; a page shows 12.
        every: after how many epochs.

    Examples:
        >>> model = af.Sequential([af.layers.Input([4]), af.layers.Dense(4, name="dense")])
        >>> model.compile(loss="mse")
        >>> def shown(model):
        ...     kernel = model.layers[0].kernel
        ...     return [kernel, af.summary.image("kernel", af.reshape(kernel, [1, 4, 4, 1]))]
        >>> live = af.callbacks.LiveSummaries(shown)
        >>> x = np.ones((4, 4), np.float32)
        >>> async with af.dashboard.record(session, "run.json"):
        ...     history = await model.fit(x, x, epochs=2, verbose=0, callbacks=[live], session=session)
    """

    def __init__(self, of: "Shown | Callable[[Trainable], Shown] | None" = None, every: int = 1) -> None:
        """TypeError or ValueError for a number of epochs that is none, or for `of` that shows nothing."""
        self.every: Final = whole("every", every, 1)
        if of is not None and not callable(of) and (isinstance(of, (Variable, Tensor)) or not isinstance(of, Iterable)):
            raise TypeError(f"of is a list of variables and summaries, or a function, not {safe_repr(of)}")
        self._of: Final = of
        self._merged: tuple[Any, Tensor | None] | None = None

    async def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Show them, if they are due and somebody looks. TypeError or ValueError for something else than summaries."""
        if not self.session.listeners or (epoch + 1) % self.every:
            return
        if self._merged is None or self._merged[0] is not self.model:
            self._merged = self.model, _merged(self.model, self._of)
        if self._merged[1] is None:
            return
        try:
            self.session.tell(TrainingReport(summaries=await self.session.run(self._merged[1])))
        except (errors.InvalidArgumentError, errors.FailedPreconditionError) as error:
            self.session.tell(TrainingReport(event=f"no summaries after epoch {epoch}: {error}", level="bad"))


def weight_histograms(model: "Trainable") -> Tensor | None:
    """Return the summary of all weights of a model; None if it has none."""
    return _merged(model, None)


def _merged(model: "Trainable", of: "Shown | Callable[[Trainable], Shown] | None") -> Tensor | None:
    """Return the summary of all that is shown; None if that is nothing."""
    with model.graph.as_default():
        shown = of(model) if callable(of) else model.weights if of is None else of
        found = [_summary(model, each) for each in shown]
        return merge(found, collections=[]) if found else None


def _summary(model: "Trainable", shown: Any) -> Tensor:
    """Return a summary as it is, and the histogram of a variable."""
    if not isinstance(shown, (Variable, Tensor)) or (isinstance(shown, Tensor) and shown.dtype is not string):
        raise TypeError(f"LiveSummaries shows variables and results of af.summary, not {safe_repr(shown)}")
    if shown.graph is not model.graph:
        raise ValueError(f"{shown.op.name!r} belongs to another graph than the model {model.name!r}")
    return shown if isinstance(shown, Tensor) else histogram_summary(shown, shown.op.name)
