"""Methods that a subclass of Keras' classes may define, and that aioflow would never call."""

from collections.abc import Mapping
from typing import Final

_STEP: Final = "`fit` builds its steps from `call`, the losses of `compile` and the losses of `add_loss`"
_LOOP: Final = "for another step write the loop with `session.run`, and an optimizer of af.train"
MODEL: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ["train_step", "make_train_function", "compute_loss", "compute_loss_and_updates"], f"{_STEP}; {_LOOP}"
    ),
    **dict.fromkeys(["test_step", "make_test_function"], f"`evaluate` runs `call`, losses and metrics; {_LOOP}"),
    **dict.fromkeys(["predict_step", "make_predict_function"], "`predict` gives what `call` returns"),
    "compute_metrics": "give `compile` the metrics, such as a subclass of af.metrics.Metric",
}
"""The methods of models, each with what to do instead."""
CALLBACK: Final[Mapping[str, str]] = {
    "on_batch_begin": "call it on_train_batch_begin",
    "on_batch_end": "call it on_train_batch_end",
    "set_model": "the attribute model has the model before the first hook is called",
    "set_params": "the attribute params has the numbers before the first hook is called",
}
"""The methods of callbacks, likewise."""


def check_overrides(kind: type, unused: Mapping[str, str]) -> None:
    """Raise TypeError if a class defines one of these methods."""
    for name, mend in unused.items():
        if callable(getattr(kind, name, None)):
            raise TypeError(f"{kind.__name__} defines {name}, which aioflow would never call: {mend}")
