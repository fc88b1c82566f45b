"""`af.distributions`: probability distributions, under TensorFlow's names.

Input: parameters, as tensors or numbers. Output: objects whose methods build samples, probabilities and statistics.
`distribution` holds what all share: shapes, names, and how one method follows from another; each class holds formulas.
This folder uses `kernels` and the functions of `library` around it.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.library.distributions.bernoulli": "Bernoulli",
    "aioflow.library.distributions.beta": "Beta",
    "aioflow.library.distributions.categorical": "Categorical",
    "aioflow.library.distributions.dirichlet": "Dirichlet",
    "aioflow.library.distributions.distribution": "Distribution",
    "aioflow.library.distributions.divergence": "RegisterKL kl_divergence",
    "aioflow.library.distributions.gamma": "Exponential Gamma",
    "aioflow.library.distributions.laplace": "Laplace",
    "aioflow.library.distributions.multinomial": "DirichletMultinomial Multinomial",
    "aioflow.library.distributions.normal": "Normal",
    "aioflow.library.distributions.reparameterization": (
        "FULLY_REPARAMETERIZED NOT_REPARAMETERIZED ReparameterizationType"
    ),
    "aioflow.library.distributions.student_t": "StudentT",
    "aioflow.library.distributions.uniform": "Uniform",
})  # fmt: skip
