"""The probability of all ways to stretch a row of labels over time: sums over paths through a lattice of states.

A path visits, in order, the states blank, label 1, blank, label 2 ... blank. It stays, moves on by one state, or skips
the blank between two labels; of equal labels, whose stretches would merge, none is skipped. All numbers are logarithms,
and a path that cannot be has -inf. Rows of a batch go through the lattice side by side, each for its own length.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioflow.tensors.dtypes import Array

Sum = tuple[Array, Array | None]
"""Logarithms of sums over paths, and how fast they change in a direction, if one is asked for."""


class Lattice:
    """The states of a batch of rows, with the probability of each at each time.

    Args:
        scores: logarithms of the probabilities of classes, up to a constant per time, [time, batch, classes].
        labels: classes [batch, most]; of each row only the first ones count.
        label_length: how many of them.
        logit_length: how many times of each row count.
        blank: the class that is no label.
        merges: whether a class that lasts for several times is one label.
    """

    def __init__(
        self, scores: Array, labels: Array, label_length: Array, logit_length: Array, blank: int, merges: bool
    ) -> None:
        batch, most = labels.shape
        self.times = len(scores)
        self.logit_length, self.label_length = logit_length, label_length
        self.classes = np.full((batch, 2 * most + 1), blank)
        self.classes[:, 1::2] = np.where(np.arange(most) < label_length[:, None], labels, blank)
        is_label = np.arange(2 * most + 1) % 2 == 1
        self.stays = np.where(is_label & (not merges), -np.inf, 0.0).astype(scores.dtype)
        self.skips = np.full(self.classes.shape, -np.inf, scores.dtype)
        differs = self.classes[:, 3::2] != self.classes[:, 1:-2:2]
        self.skips[:, 3::2] = np.where(differs | (not merges), 0.0, -np.inf)
        self.log_probabilities = _log_softmax(scores)
        self.of_states = self._at_states(self.log_probabilities)

    def _at_states(self, of_classes: Array) -> Array:
        return np.take_along_axis(of_classes, self.classes[None], 2)

    # Sums over the beginnings and the ends of paths

    def forward(self, moves: Array | None = None) -> list[Sum]:
        """For each number of times passed, from 0 to all, the sums over the beginnings that lead to each state."""
        first = np.full(self.classes.shape, -np.inf, self.of_states.dtype)
        first[:, 0] = 0
        sums: list[Sum] = [(first, None if moves is None else np.zeros_like(first))]
        for time in range(self.times):
            whole, rate = _add([self._from(part) for part in self._steps(sums[-1])])
            whole = whole + self.of_states[time]
            if moves is not None:
                rate = rate + moves[time]
            sums.append(self._within(time, (whole, rate), sums[-1]))
        return sums

    def backward(self, moves: Array | None = None) -> list[Sum]:
        """For each number of times passed, the sums over the ends that lead from each state."""
        last = self._last(self.of_states.dtype)
        sums: list[Sum] = [(last, None if moves is None else np.zeros_like(last))]
        for time in reversed(range(self.times)):
            whole, rate = sums[-1]
            rate = None if moves is None else rate + moves[time]
            made = _add(self._steps_back((whole + self.of_states[time], rate)))
            sums.append(self._within(time, made, sums[-1]))
        return sums[::-1]

    def total(self, sums: Sum) -> Sum:
        """The sums over whole paths, of each row, by those over the beginnings at the end."""
        last = self._last(sums[0].dtype)
        return _add([(sums[0] + last, sums[1])], axis=1)

    def _last(self, dtype: Any) -> Array:
        """0 at the states in which a path may end, the last label and the blank after it; -inf elsewhere."""
        states, end = np.arange(self.classes.shape[1]), 2 * self.label_length[:, None]
        return np.where((states == end) | (states == end - 1), 0.0, -np.inf).astype(dtype)

    def _within(self, time: int, now: Sum, before: Sum) -> Sum:
        """The sums `now` of the rows that last longer than `time`, those before of the others."""
        counts = (time < self.logit_length)[:, None]
        whole = np.where(counts, now[0], before[0])
        return whole, None if now[1] is None else np.where(counts, now[1], before[1])

    def _steps(self, sums: Sum) -> Sequence[tuple[Array, Array | None, int, Array]]:
        return [(*sums, 0, self.stays), (*sums, 1, np.zeros_like(self.stays)), (*sums, 2, self.skips)]

    def _from(self, part: tuple[Array, Array | None, int, Array]) -> Sum:
        whole, rate, by, allowed = part
        return _moved(whole, by, -np.inf) + allowed, None if rate is None else _moved(rate, by, 0)

    def _steps_back(self, sums: Sum) -> list[Sum]:
        whole, rate = sums
        found = []
        for by, allowed in ((0, self.stays), (1, np.zeros_like(self.stays)), (2, self.skips)):
            back = _moved((whole + allowed)[:, ::-1], by, -np.inf)[:, ::-1]
            found.append((back, None if rate is None else _moved(rate[:, ::-1], by, 0)[:, ::-1]))
        return found

    # From states to classes

    def loss(self) -> Array:
        """The negative logarithm of the probability of each row; infinite where no path is short enough."""
        return -self.total(self.forward()[-1])[0]

    def gradient(self) -> Array:
        """The gradient of `loss` with respect to the scores; 0 for rows whose loss is infinite."""
        visits, _, total = self._visits(None)
        return self._from_classes(np.exp(self.log_probabilities), visits, total)

    def curvature(self, direction: Array) -> Array:
        """How fast `gradient` changes as the scores move in that direction."""
        probabilities = np.exp(self.log_probabilities)
        moved = direction - (probabilities * direction).sum(-1, keepdims=True)
        _, rates, total = self._visits(self._at_states(moved))
        return self._from_classes(probabilities * moved, rates, total)

    def _visits(self, moves: Array | None) -> tuple[Array, Any, Array]:
        """The probability that a path visits a state at a time, how fast it changes, and the sums over whole paths."""
        forward, backward = self.forward(moves), self.backward(moves)
        whole, rate = self.total(forward[-1])
        with np.errstate(invalid="ignore"):
            sums = np.stack([before[0] + after[0] for before, after in zip(forward, backward, strict=True)])[1:]
            visits = np.nan_to_num(np.exp(sums - whole[:, None]), nan=0.0)
        if moves is None:
            return visits, None, whole
        pairs = zip(forward, backward, strict=True)
        rates = np.stack([np.asarray(before[1]) + np.asarray(after[1]) for before, after in pairs])[1:]
        return visits, visits * (rates - np.asarray(rate)[:, None]), whole

    def _from_classes(self, expected: Array, visits: Array, total: Array) -> Array:
        """`expected` of each class less the sum over its states, where a row counts."""
        found = expected.copy()
        rows = np.arange(len(self.classes))
        for state in range(self.classes.shape[1]):
            found[:, rows, self.classes[:, state]] -= visits[:, :, state]
        counts = (np.arange(self.times)[:, None] < self.logit_length) & np.isfinite(total)
        return np.where(counts[:, :, None], found, 0)


def _log_softmax(scores: Array) -> Array:
    shifted = scores - scores.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _moved(values: Array, by: int, fill: float) -> Array:
    """`values` moved on by that many states."""
    if not by:
        return values
    moved = np.full_like(values, fill)
    moved[:, by:] = values[:, :-by]
    return moved


def _add(parts: Sequence[Sum], axis: int = 0) -> Sum:
    """The sum of parts, or of a single part along an axis of it, and how fast its logarithm changes."""
    terms = np.stack([whole for whole, _ in parts]) if axis == 0 else parts[0][0]
    whole = np.logaddexp.reduce(terms, axis)
    if parts[0][1] is None:
        return whole, None
    rates = np.stack([np.asarray(rate) for _, rate in parts]) if axis == 0 else parts[0][1]
    with np.errstate(invalid="ignore"):
        weights = np.nan_to_num(np.exp(terms - np.expand_dims(whole, axis)), nan=0.0)
    return whole, (weights * rates).sum(axis)
