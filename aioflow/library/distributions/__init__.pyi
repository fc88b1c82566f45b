"""`af.distributions`: probability distributions, under TensorFlow's names.

Input: parameters, as tensors or numbers. Output: objects whose methods build samples, probabilities and statistics.
`distribution` holds what all share: shapes, names, and how one method follows from another; each class holds formulas.
This folder uses `kernels` and the functions of `library` around it.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.library.distributions.bernoulli import Bernoulli as Bernoulli
from aioflow.library.distributions.beta import Beta as Beta
from aioflow.library.distributions.categorical import Categorical as Categorical
from aioflow.library.distributions.dirichlet import Dirichlet as Dirichlet
from aioflow.library.distributions.distribution import Distribution as Distribution
from aioflow.library.distributions.divergence import RegisterKL as RegisterKL
from aioflow.library.distributions.divergence import kl_divergence as kl_divergence
from aioflow.library.distributions.gamma import Exponential as Exponential
from aioflow.library.distributions.gamma import Gamma as Gamma
from aioflow.library.distributions.laplace import Laplace as Laplace
from aioflow.library.distributions.multinomial import DirichletMultinomial as DirichletMultinomial
from aioflow.library.distributions.multinomial import Multinomial as Multinomial
from aioflow.library.distributions.normal import Normal as Normal
from aioflow.library.distributions.reparameterization import FULLY_REPARAMETERIZED as FULLY_REPARAMETERIZED
from aioflow.library.distributions.reparameterization import NOT_REPARAMETERIZED as NOT_REPARAMETERIZED
from aioflow.library.distributions.reparameterization import ReparameterizationType as ReparameterizationType
from aioflow.library.distributions.student_t import StudentT as StudentT
from aioflow.library.distributions.uniform import Uniform as Uniform

__all__ = ["Bernoulli", "Beta", "Categorical", "Dirichlet", "DirichletMultinomial", "Distribution", "Exponential",
    "FULLY_REPARAMETERIZED", "Gamma", "Laplace", "Multinomial", "NOT_REPARAMETERIZED", "Normal", "RegisterKL",
    "ReparameterizationType", "StudentT", "Uniform", "kl_divergence"]
