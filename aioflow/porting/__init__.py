"""Aids for porting a model, after the white paper's lessons [P15 section 6].

Import weights that another program has saved, count the parameters, compare two systems tensor by tensor, and do so
first of all with learning turned off. `weights` is the face of an import: a name map gives the tensors of a file the
names of variables, `rules` and `torch_rules` convert layouts, `matching` makes the report, before anything is changed.
This folder uses sessions as any user does. `tensorflow1` changes programs of TensorFlow 1: `aioflow port`.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.porting.matching": "Match Misfit WeightReport",
    "aioflow.porting.outputs": "compare_outputs",
    "aioflow.porting.rules": "Rule",
    "aioflow.porting.torch_rules": "TORCH dense_after_flatten",
    "aioflow.porting.weights": "import_weights match_weights",
})  # fmt: skip
