"""Generators: random numbers that follow from a state, which each draw moves on."""

import enum
from collections.abc import Sequence
from typing import Any, Final, Self

import numpy as np

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import NumberLike, TensorLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat, stack, unstack
from aioflow.kernels.array.constants import zeros_like
from aioflow.kernels.array.shapes import broadcast_to, reshape
from aioflow.kernels.math import generator_numbers as kernels
from aioflow.kernels.math.arithmetic import add, multiply
from aioflow.kernels.math.casting import cast
from aioflow.kernels.math.random import unseeded_integers
from aioflow.kernels.math.reduction import reduce_prod
from aioflow.library.control import name_scope
from aioflow.library.variables import Variable
from aioflow.tensors.dtypes import DTypeLike, as_dtype, float32, float64, int32, int64, uint64
from aioflow.tensors.recursion import safe_repr

_GLOBAL: Final = "__global_random_generator"
"""The graph's collection of its one global generator."""
_SIZE: Final = 3
"""How many integers a state has: two for the counter, one for the key."""


class Algorithm(enum.Enum):
    """An algorithm of random numbers. Generators have Philox; ThreeFry exists only on devices of XLA.

    Examples:
        >>> af.random.Algorithm.PHILOX.value
        1
    """

    PHILOX = 1
    THREEFRY = 2
    AUTO_SELECT = 3


_NAMES: Final[dict[Any, Algorithm]] = {kind.name.lower(): kind for kind in Algorithm} | {
    kind.value: kind for kind in Algorithm
}


def _philox(alg: Any) -> Algorithm:
    """Philox, if `alg` names it or leaves the choice. ValueError for any other."""
    found = alg if isinstance(alg, Algorithm) else _NAMES.get(alg) if isinstance(alg, (str, int)) else None
    if found not in (Algorithm.PHILOX, Algorithm.AUTO_SELECT):
        raise ValueError(f"generators have the algorithm 'philox', or 'auto_select', not {safe_repr(alg)}")
    return Algorithm.PHILOX


def create_rng_state(seed: int | Sequence[int], alg: str | int | Algorithm) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the state [3], int64, of a generator with that seed: the counter, its low half first, and the key.

    An integer fills the state from its lowest 64 bits on. Of a sequence, zeros come before fewer than three integers;
    those after the third do not count.

    Raises:
        TypeError: the seed is not made of integers.
        ValueError: the algorithm is not Philox.

    Examples:
        >>> af.random.create_rng_state(1234, "philox")
        array([1234,    0,    0])
        >>> af.random.create_rng_state([12, 34], "philox")
        array([ 0, 12, 34])
    """
    _philox(alg)
    if isinstance(seed, (int, np.integer)):
        parts = [int(seed) >> 64 * place & (1 << 64) - 1 for place in range(_SIZE)]
        return np.array(parts, np.uint64).view(np.int64)
    parts = np.ravel(np.asarray(seed, object)).tolist()[:_SIZE]
    if not all(isinstance(part, (int, np.integer)) and not isinstance(part, bool) for part in parts):
        raise TypeError(f"a seed is an integer, or integers in a sequence, not {safe_repr(seed)}")
    padded = [0] * (_SIZE - len(parts)) + [int(part) & (1 << 64) - 1 for part in parts]
    return np.array(padded, np.uint64).view(np.int64)


class Generator:
    """Random numbers that follow from the state of the generator, to the bit those of TensorFlow's generators.

        generator = af.random.Generator.from_seed(1234)
        numbers = generator.normal([2, 3])

    The algorithm is Philox 4x32 with 10 rounds (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011).
    The state is a variable, `state`, that `af.global_variables_initializer()` initializes and savers save. Each draw
    moves it on in one indivisible change, so two steps at the same time draw different numbers. Draws of one step
    happen in the order in which they were built. Logarithms and sines may round differently from TensorFlow's, and
    `binomial` has TensorFlow's distribution, not its numbers.

    Args:
        copy_from: a generator: the new one begins with the state that this one has when the new one is initialized.
        state: the first state: three integers, int64. A Variable becomes the generator's own.
        alg: the algorithm of `state`: "philox", or "auto_select", which is the same.

    Raises:
        ValueError: the state has another shape, the algorithm is another, or there is neither a state nor a generator.

    Examples:
        >>> generator = af.random.Generator.from_seed(1234)
        >>> await session.run(generator.state.initializer)
        >>> await session.run(generator.uniform([3], 0, 10, af.int32))
        array([9, 6, 4], dtype=int32)
        >>> await session.run(generator.state)
        array([2002,    0,    0])
    """

    @transactional
    def __init__(self, copy_from: "Generator | None" = None, state: TensorLike | None = None, alg: Any = None) -> None:
        if copy_from is not None:
            self._state = _state_variable(copy_from.state.initialized_value())
            return
        if state is None or alg is None:
            raise ValueError("a generator needs copy_from, or both state and alg; see Generator.from_seed")
        _philox(alg)
        self._state = state if isinstance(state, Variable) else _state_variable(_as_state(state))
        _check_shape(self._state)

    @classmethod
    def from_state(cls, state: TensorLike, alg: Any) -> Self:
        """Return the generator with that state: three integers, or a Variable that it takes as its own."""
        return cls(state=state, alg=alg)

    @classmethod
    def from_seed(cls, seed: int | Sequence[int], alg: Any = None) -> Self:
        """Return the generator whose first state is `af.random.create_rng_state(seed, alg)`."""
        chosen = Algorithm.PHILOX if alg is None else alg
        return cls(state=create_rng_state(seed, chosen), alg=chosen)

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Self:
        """Return a generator whose first state is random: another one each time that its variable is initialized."""
        return cls(state=unseeded_integers([_SIZE]), alg=Algorithm.PHILOX if alg is None else alg)

    @classmethod
    def from_key_counter(cls, key: NumberLike, counter: NumberLike, alg: Any) -> Self:
        """Return the generator of that key, one integer, and that counter, two integers, the low half first."""
        return cls(state=_joined(key, counter), alg=alg)

    # The state

    @property
    def state(self) -> Variable:
        """The variable of the state: the counter, its low half first, and the key."""
        return self._state

    @property
    def algorithm(self) -> int:
        """The number of the algorithm: that of `Algorithm.PHILOX`."""
        return Algorithm.PHILOX.value

    @property
    def key(self) -> Tensor:
        """The key, the last integer of the state, read at this place."""
        return self._state.value()[2]

    def reset(self, state: TensorLike) -> Tensor:
        """Return a tensor whose run assigns another state, three integers."""
        return self._state.assign(_as_state(state))

    def reset_from_seed(self, seed: int | Sequence[int]) -> Tensor:
        """Return a tensor whose run assigns the state of that seed. See `from_seed`."""
        return self.reset(create_rng_state(seed, self.algorithm))

    def reset_from_key_counter(self, key: NumberLike, counter: NumberLike) -> Tensor:
        """Return a tensor whose run assigns that key and counter. See `from_key_counter`."""
        return self.reset(_joined(key, counter))

    def skip(self, delta: NumberLike) -> Tensor:
        """Return the state before it steps over `delta` numbers, in the same run. It is that after drawing `delta`."""
        return self._advanced(convert_to_tensor(delta, preferred_dtype=int64))

    def _advanced(self, delta: NumberLike) -> Tensor:
        return kernels.advance_generator_variable(self._state.handle, delta)

    def _drawn(self, shape: NumberLike) -> tuple[Tensor, Tensor]:
        """The shape of a draw, and the state that it begins with."""
        sizes = convert_to_tensor(shape, preferred_dtype=int32)
        return sizes, self._advanced(reduce_prod(cast(sizes, int64)))

    # Numbers

    @transactional
    def normal(
        self,
        shape: NumberLike,
        mean: NumberLike = 0.0,
        stddev: NumberLike = 1.0,
        dtype: DTypeLike = float32,
        name: str | None = None,
    ) -> Tensor:
        """Return normally distributed numbers of that mean and standard deviation, to which gradients flow."""
        with name_scope(name, "stateful_normal", [shape, mean, stddev]) as scope:
            return _stretched(kernels.generator_normal(*self._drawn(shape), as_dtype(dtype)), stddev, mean, scope)

    @transactional
    def truncated_normal(
        self,
        shape: NumberLike,
        mean: NumberLike = 0.0,
        stddev: NumberLike = 1.0,
        dtype: DTypeLike = float32,
        name: str | None = None,
    ) -> Tensor:
        """Return normal numbers, without those two or more standard deviations away from the mean."""
        with name_scope(name, "truncated_normal", [shape, mean, stddev]) as scope:
            numbers = kernels.generator_truncated_normal(*self._drawn(shape), as_dtype(dtype))
            return _stretched(numbers, stddev, mean, scope)

    @transactional
    def uniform(
        self,
        shape: NumberLike,
        minval: NumberLike | None = 0,
        maxval: NumberLike | None = None,
        dtype: DTypeLike = float32,
        name: str | None = None,
    ) -> Tensor:
        """Return numbers from `minval` up to but not `maxval`, which is 1 for floats by default.

        Integers are the rest of a word by `maxval - minval`, and so slightly uneven. For all integers of a dtype both
        bounds are None.

        Raises:
            ValueError: only one of the bounds of integers is given, or floats have no `minval`.
            TypeError: the dtype is neither floating, nor int32, int64, uint32 or uint64.
        """
        kind = as_dtype(dtype)
        with name_scope(name, "stateful_uniform", [shape, minval, maxval]) as scope:
            if minval is None and maxval is None and kind.is_integer:
                return kernels.generator_uniform_full_int(*self._drawn(shape), kind, name=scope)
            if minval is None or (maxval is None and kind.is_integer):
                raise ValueError(
                    f"for the dtype {kind.name} give minval and maxval, or for all integers neither; "
                    f"minval is {safe_repr(minval)} and maxval {safe_repr(maxval)}"
                )
            low, high = [convert_to_tensor(bound, kind) for bound in (minval, 1 if maxval is None else maxval)]
            if kind.is_integer:
                return kernels.generator_uniform_int(*self._drawn(shape), low, high, name=scope)
            return _stretched(kernels.generator_uniform(*self._drawn(shape), kind), high - low, low, scope)

    @transactional
    def uniform_full_int(self, shape: NumberLike, dtype: DTypeLike = uint64, name: str | None = None) -> Tensor:
        """Return integers of which each that the dtype has is as likely as the next."""
        with name_scope(name, "stateful_uniform_full_int", [shape]) as scope:
            return kernels.generator_uniform_full_int(*self._drawn(shape), as_dtype(dtype), name=scope)

    @transactional
    def binomial(
        self,
        shape: NumberLike,
        counts: NumberLike,
        probs: NumberLike,
        dtype: DTypeLike = int32,
        name: str | None = None,
    ) -> Tensor:
        """Return how many of `counts` attempts succeed, each with the probability `probs`; both broadcast to `shape`.

        A floating dtype has NaN where a count is not a whole number from 0 on or a probability lies outside [0, 1]; of
        an integer dtype the run fails.
        """
        with name_scope(name, "stateful_binomial", [shape, counts, probs]) as scope:
            sizes, state = self._drawn(shape)
            attempts, chances = [broadcast_to(cast(value, float64), sizes) for value in (counts, probs)]
            return kernels.generator_binomial(attempts, chances, state, as_dtype(dtype), name=scope)

    @transactional
    def make_seeds(self, count: int = 1) -> Tensor:
        """Return `count` seeds for the `stateless_*` operations: [2, count], int64, a column for each."""
        keys = self.uniform_full_int([count], int64)
        return stack([keys, zeros_like(keys)])

    @transactional
    def split(self, count: int = 1) -> list["Generator"]:
        """Return `count` generators whose keys this one draws when they are initialized, which they must be after it.

        One run of `af.global_variables_initializer()` initializes all of them.
        """
        keys = unstack(self.uniform_full_int([count], int64), num=count)
        return [Generator.from_key_counter(key, [0, 0], self.algorithm) for key in keys]


def get_global_generator() -> Generator:
    """Return the global generator of the default graph, which at its first call begins with a random state.

    Examples:
        >>> numbers = af.random.get_global_generator().uniform([3])
        >>> await session.run(af.global_variables_initializer())
        >>> (await session.run(numbers)).shape
        (3,)
    """
    kept = get_default_graph().root.get_collection_ref(_GLOBAL)
    if not kept:
        kept.append(Generator.from_non_deterministic_state())
    found: Generator = kept[0]
    return found


def set_global_generator(generator: Generator) -> None:
    """Make a generator the global one of its graph. Operations that exist already keep the former one.

    Examples:
        >>> af.random.set_global_generator(af.random.Generator.from_seed(5))
        >>> await session.run(af.random.get_global_generator().state.initializer)
        >>> (await session.run(af.random.get_global_generator().state)).tolist()
        [5, 0, 0]
    """
    if not isinstance(generator, Generator):
        raise TypeError(f"the global generator is an af.random.Generator, not {safe_repr(generator)}")
    generator.state.graph.root.get_collection_ref(_GLOBAL)[:] = [generator]


def _state_variable(state: TensorLike) -> Variable:
    return Variable(state, trainable=False, name="StateVar", dtype=int64)


def _as_state(state: TensorLike) -> Tensor:
    """A state as a tensor, int64. ValueError unless it may be three integers."""
    tensor = convert_to_tensor(state)
    if not tensor.dtype.is_integer:
        raise TypeError(f"the state of a generator is made of integers, not {tensor.dtype.name}")
    _check_shape(tensor)
    return tensor if tensor.dtype is int64 else cast(tensor, int64)


def _check_shape(state: Tensor | Variable) -> None:
    if not state.shape.is_compatible_with([_SIZE]):
        raise ValueError(f"the state of a generator has the shape [{_SIZE}], not {state.shape}")


def _joined(key: NumberLike, counter: NumberLike) -> Tensor:
    """The state of that key and counter. ValueError unless they may be one and two integers."""
    one, two = convert_to_tensor(key, int64), convert_to_tensor(counter, int64)
    if not (one.shape.is_compatible_with([]) and two.shape.is_compatible_with([2])):
        raise ValueError(f"a key has the shape [] and a counter the shape [2], not {one.shape} and {two.shape}")
    return concat([two, reshape(one, [1])], 0)


def _stretched(numbers: Tensor, scale: NumberLike, shift: NumberLike, scope: str) -> Tensor:
    return add(multiply(numbers, convert_to_tensor(scale, numbers.dtype)), shift, name=scope)
