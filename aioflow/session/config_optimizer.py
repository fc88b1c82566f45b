"""`af.config.optimizer`: what plans do to graphs, in sessions without a Config."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.session.default_config": "get_experimental_options get_jit set_experimental_options set_jit",
})  # fmt: skip
