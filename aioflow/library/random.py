"""Random numbers under the names of TensorFlow's `random`, and random crops."""

from typing import Final

from aioflow.graph.building import get_default_graph, transactional
from aioflow.graph.convert import NumberLike, convert_to_tensor
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.shapes import shape
from aioflow.kernels.array.slicing import slice
from aioflow.kernels.control.assertions import assert_less_equal
from aioflow.kernels.math.random import (
    get_seed,
    multinomial,
    random_normal,
    random_shuffle,
    random_uniform,
    set_random_seed,
    truncated_normal,
)
from aioflow.kernels.math.random_distributions import random_bernoulli, random_gamma, random_poisson
from aioflow.kernels.nn.weighted_sampling import all_candidate_sampler, fixed_unigram_candidate_sampler
from aioflow.lazy import Face
from aioflow.library import random_experimental as experimental
from aioflow.library.learned_sampler import learned_unigram_candidate_sampler
from aioflow.library.nn_sampling import log_uniform_candidate_sampler, uniform_candidate_sampler
from aioflow.library.random_generator import (
    Algorithm,
    Generator,
    create_rng_state,
    get_global_generator,
    set_global_generator,
)
from aioflow.library.stateless_random import (
    stateless_binomial,
    stateless_categorical,
    stateless_fold_in,
    stateless_gamma,
    stateless_multinomial,
    stateless_normal,
    stateless_parameterized_truncated_normal,
    stateless_poisson,
    stateless_split,
    stateless_truncated_normal,
    stateless_uniform,
)
from aioflow.tensors import dtypes
from aioflow.tensors.dtypes import INTEGER, DTypeLike, Spec, as_dtype

normal: Final = random_normal
uniform: Final = random_uniform
shuffle: Final = random_shuffle
bernoulli: Final = random_bernoulli
gamma: Final = random_gamma
poisson: Final = random_poisson
fold_in: Final = stateless_fold_in
split: Final = stateless_split


def categorical(
    logits: NumberLike,
    num_samples: NumberLike,
    dtype: DTypeLike | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return `multinomial`: for each row of `logits`, classes drawn with the probability softmax(logits), int64.

    Examples:
        >>> (await session.run(af.random.categorical([[0.0, -1000.0]], 3))).tolist()
        [[0, 0, 0]]
    """
    return multinomial(logits, num_samples, seed, name, dtypes.int64 if dtype is None else as_dtype(dtype))


@transactional
def random_crop(value: NumberLike, size: NumberLike, seed: int | None = None, name: str | None = None) -> Tensor:
    """Return a part of `value` with the sizes `size`, at a uniformly random position.

    `size` has a number for each axis: the axis' own size to keep all of it.

    Raises:
        InvalidArgumentError: in the run, or when it is built if that is known by then, if a size is larger than the
            axis.

    Examples:
        >>> (await session.run(af.random_crop(af.ones([4, 4, 3]), [2, 2, 3]))).shape
        (2, 2, 3)
    """
    graph = get_default_graph()
    with graph.name_scope(name or "random_crop") as scope:
        whole, part = convert_to_tensor(value), convert_to_tensor(size, preferred_dtype=dtypes.int32)
        Spec(part.dtype).only(INTEGER)
        sizes = shape(whole, out_type=part.dtype)
        fits = assert_less_equal(part, sizes, message="the sizes, x, must not be larger than those of the value, y")
        with graph.control_dependencies([fits]):
            places = random_uniform(shape(sizes), maxval=part.dtype.max, dtype=part.dtype, seed=seed)
        return slice(whole, places % (sizes - part + 1), part, name=scope)


__all__ = [
    "Algorithm", "Generator", "all_candidate_sampler", "bernoulli", "categorical", "create_rng_state", "experimental",
    "fixed_unigram_candidate_sampler", "fold_in", "gamma", "get_global_generator", "get_seed",
    "learned_unigram_candidate_sampler", "log_uniform_candidate_sampler", "multinomial", "normal", "poisson",
    "random_crop", "set_global_generator", "set_random_seed", "shuffle", "split", "stateless_binomial",
    "stateless_categorical", "stateless_gamma", "stateless_multinomial", "stateless_normal",
    "stateless_parameterized_truncated_normal", "stateless_poisson", "stateless_truncated_normal", "stateless_uniform",
    "truncated_normal", "uniform", "uniform_candidate_sampler",
]  # fmt: skip
Face(__name__, {__name__: " ".join(__all__)})
