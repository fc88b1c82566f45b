"""An LSTM over all steps of a batch of sequences."""

import numpy as np

import aioflow.library.lstm  # noqa: F401  It declares the gradient of lstm_grad.
from aioflow.kernels.nn.lstm import lstm, lstm_grad
from tests.kernels.samples import sample

rng = np.random.default_rng(8)
SIZES = (3, 2, 2), (2, 8), (2, 8), (8,), (2, 2), (2, 2)
inputs = [np.round(rng.normal(size=size), 2) for size in SIZES]
seeds = [np.round(rng.normal(size=size), 2) for size in ((3, 2, 2), (2, 2), (2, 2))]
WHOLE, LENGTHS = np.zeros(0, np.int32), np.array([3, 1], np.int32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def steps(x, kernel, recurrent_kernel, bias, h, c, lengths, gates="ifco"):
    """The outputs, and the last h and c, step by step."""
    outputs = np.zeros((len(x), *h.shape), h.dtype)
    for step, row in enumerate(x):
        parts = dict(zip(gates, np.split(row @ kernel + h @ recurrent_kernel + bias, 4, axis=1), strict=True))
        after = sigmoid(parts["f"]) * c + sigmoid(parts["i"]) * np.tanh(parts["c"])
        output = sigmoid(parts["o"]) * np.tanh(after)
        alive = (step < lengths)[:, None] if lengths.size else np.True_
        h, c = np.where(alive, output, h), np.where(alive, after, c)
        outputs[step] = np.where(alive, output, 0)
    return outputs, h, c


def gradients(seeds, inputs, lengths, gates):
    """Those of `steps` for the part of the gates that the inputs have, h and c.

    They are differences along the imaginary axis, which have no rounding.
    """
    x, kernel, recurrent_kernel, bias, h, c = inputs
    found, values = [], [value.astype(complex) for value in (x @ kernel + bias, h, c)]
    for value in values:
        made = np.zeros(value.shape)
        for place in np.ndindex(value.shape):
            value[place] += 1e-30j
            part, *first = values
            ends = steps(part, np.eye(8), recurrent_kernel, 0, *first, lengths, gates)
            made[place] = sum([(seed * end).sum() for seed, end in zip(seeds, ends, strict=True)]).imag / 1e-30
            value[place] = value[place].real
        found.append(made)
    return tuple(found)


def gradient_of(lengths, gates):
    """The op, for what `lstm` gives the gradient."""

    def build(*given):
        _, _, _, values, gated = lstm(*given[3:], lengths, gates=gates)
        return lstm_grad(*given, values, gated, lengths, gates=gates)

    return build


for lengths, gates in ((WHOLE, "icfo"), (LENGTHS, "ifco")):
    sample(
        "lstm", lambda *given, lengths=lengths, gates=gates: lstm(*given, lengths, gates=gates)[:3], *inputs,
        reference=lambda *given, lengths=lengths, gates=gates: steps(*given, lengths, gates),
    )  # fmt: skip
    sample(
        "lstm_grad", gradient_of(lengths, gates), *seeds, *inputs,
        reference=lambda *given, lengths=lengths, gates=gates: gradients(given[:3], given[3:], lengths, gates),
    )  # fmt: skip
sample(
    "lstm", lambda *given: lstm(*given, WHOLE)[:3], inputs[0][:0], *inputs[1:],
    reference=lambda *given: steps(*given, WHOLE), gradient=False,
)  # fmt: skip
