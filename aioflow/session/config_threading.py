"""`af.config.threading`: the threads of sessions without a Config."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.session.default_config": (
        "get_inter_op_parallelism_threads get_intra_op_parallelism_threads set_inter_op_parallelism_threads "
        "set_intra_op_parallelism_threads"
    ),
})  # fmt: skip
