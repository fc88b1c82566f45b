"""Hints for names that aioflow lacks: the replacement of a TensorFlow 1.x name, or a similar name.

Only errors use the tables.
"""

import difflib
import importlib
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

SHOWN: Final = {
    "aioflow": "af",
    "aioflow.data": "af.data",
    "aioflow.errors": "af.errors",
    "aioflow.launch": "af.launch",
    "aioflow.layers.activations": "af.activations",
    "aioflow.layers.callbacks": "af.callbacks",
    "aioflow.layers.constraints": "af.constraints",
    "aioflow.layers.distribute": "af.distribute",
    "aioflow.layers.regularizers": "af.regularizers",
    "aioflow.layers": "af.layers",
    "aioflow.library.bitwise": "af.bitwise",
    "aioflow.library.collectives": "af.collectives",
    "aioflow.library.debugging": "af.debugging",
    "aioflow.library.distributions": "af.distributions",
    "aioflow.library.dtype_names": "af.dtypes",
    "aioflow.library.gfile": "af.gfile",
    "aioflow.library.graph_util": "af.graph_util",
    "aioflow.library.image": "af.image",
    "aioflow.library.initializers": "af.initializers",
    "aioflow.library.io": "af.io",
    "aioflow.library.io_gfile": "af.io.gfile",
    "aioflow.library.linalg": "af.linalg",
    "aioflow.library.logging": "af.logging",
    "aioflow.library.lookup": "af.lookup",
    "aioflow.library.lookup_experimental": "af.lookup.experimental",
    "aioflow.library.losses": "af.losses",
    "aioflow.library.manip": "af.manip",
    "aioflow.library.math": "af.math",
    "aioflow.library.math_special": "af.math.special",
    "aioflow.library.metrics": "af.metrics",
    "aioflow.library.nn": "af.nn",
    "aioflow.library.python_io": "af.python_io",
    "aioflow.library.queue_names": "af.queue",
    "aioflow.library.random": "af.random",
    "aioflow.library.random_experimental": "af.random.experimental",
    "aioflow.library.nn_experimental": "af.nn.experimental",
    "aioflow.library.resource_loader": "af.resource_loader",
    "aioflow.library.rnn_cell": "af.nn.rnn_cell",
    "aioflow.library.sets": "af.sets",
    "aioflow.library.signal": "af.signal",
    "aioflow.library.sparse_names": "af.sparse",
    "aioflow.library.spectral": "af.spectral",
    "aioflow.library.strings": "af.strings",
    "aioflow.library.weights_broadcast": "af.weights_broadcast",
    "aioflow.onnx": "af.onnx",
    "aioflow.porting": "af.porting",
    "aioflow.saved_model": "af.saved_model",
    "aioflow.saved_model.signature_constants": "af.saved_model.signature_constants",
    "aioflow.saved_model.signature_def_utils": "af.saved_model.signature_def_utils",
    "aioflow.dashboard": "af.dashboard",
    "aioflow.serving": "af.serving",
    "aioflow.summary": "af.summary",
    "aioflow.tensors.nest": "af.nest",
    "aioflow.train": "af.train",
    "aioflow.version": "af.version",
}
"""The modules that users name, as they write them."""

_EAGER: Final = "a graph is always built first, then run: `await af.Session(graph=graph).run(fetches, feeds)`"
_KERAS: Final = "use af.layers, af.Sequential, af.Model, af.callbacks, af.losses and af.metrics"

INSTEAD: Final[Mapping[str, str]] = {
    "af.AttrValue": "pass plain values: an Operation's attributes are in `.attrs`",
    "af.ConditionalAccumulatorV1": "use af.ConditionalAccumulator",
    "af.ConfigProto": "use af.Config",
    "af.Defun": "call an ordinary function that builds operations",
    "af.Event": "use af.summary.Event",
    "af.GPUOptions": "use af.Config",
    "af.GradientTape": "use af.gradients(ys, xs)",
    "af.GraphOptions": "use af.Config",
    "af.InteractiveSession": "use `async with af.Session()`, inside which `await tensor.eval()` works",
    "af.NodeDef": "use af.GraphDef",
    "af.OptimizerOptions": "use af.Config",
    "af.RaggedTensor": "use af.SparseTensor, or pad to one shape",
    "af.Summary": "use af.summary.Summary",
    "af.SummaryMetadata": "use af.summary",
    "af.app": "use asyncio.run(main())",
    "af.audio": "decode audio in Python and feed the samples",
    "af.autograph": "use af.cond, af.while_loop and af.map_fn",
    "af.compat": "the names of TensorFlow 1.x are at the top: af.placeholder, af.Session",
    "af.contrib": "what is kept of it has a place in af, as af.collectives for contrib.nccl",
    "af.data.Iterator": "use `async for element in dataset`, or af.data.Dataset.iterate",
    "af.data.Options": "give num_parallel_calls, prefetch and seeds to the methods of af.data.Dataset",
    "af.data.experimental": "what is kept of it is in af.data: CsvDataset, AUTOTUNE, Dataset.unbatch",
    "af.enable_eager_execution": _EAGER,
    "af.enable_v2_behavior": _EAGER,
    "af.enable_tensor_equality": "`==` of tensors asks for the same object; use af.equal",
    "af.enable_v2_tensorshape": "the sizes of a TensorShape are Dimensions: use `.value`, or TensorShape.as_list()",
    "af.estimator": "use af.train.MonitoredTrainingSession",
    "af.feature_column": "use af.one_hot and af.nn.embedding_lookup",
    "af.flags": "use argparse",
    "af.function": _EAGER,
    "af.global_norm_v2": "use af.global_norm",
    "af.keras": _KERAS,
    "af.load_op_library": "use af.py_func",
    "af.nondifferentiable_batch_function": "use af.batch_function",
    "af.profiler": "use af.RunOptions(trace=True) and af.RunMetadata",
    "af.quantization": "use af.cast, or af.lossy for what is sent between devices",
    "af.ragged": "use af.SparseTensor, or pad to one shape",
    "af.size_v2": "use af.size",
    "af.sysconfig": "nothing is compiled against aioflow",
    "af.test": "use aioflow.testing",
    "af.user_ops": "use af.py_func",
    "af.nn.ctc_loss": "use af.py_func",
    "af.nn.sigmoid_cross_entropy": "use af.losses.sigmoid_cross_entropy",
    "af.nn.softmax_cross_entropy": "use af.losses.softmax_cross_entropy",
    "af.strings.unicode_script": "Python has no table of the scripts of characters; use af.py_func and a library",
    "af.train.Checkpoint": "use af.train.Saver",
}
"""The replacements of names of TensorFlow 1.x."""

_ARGUMENTS: Final[Mapping[str, str]] = {
    "feed_dict": "feeds",
    "feed_list": "feeds",
    "run_metadata": "metadata",
    "session": "`with session.as_default():` around the call, or session.run",
}
"""The replacements of parameters of TensorFlow 1.x."""


def hint(module: str, name: str, names: Iterable[str]) -> str:
    """Return the end of an AttributeError for `name`: its replacement, a similar name, or a module with that name."""
    shown = SHOWN.get(module, module)
    replaced = INSTEAD.get(f"{shown}.{name}")
    if replaced is not None:
        return f": {replaced}"
    close = _elsewhere(name) or [f"{shown}.{found}" for found in difflib.get_close_matches(name, names, 1, 0.75)]
    return f"; did you mean {' or '.join(close[:3])}?" if close else ""


def _elsewhere(name: str) -> list[str]:
    return [f"{shown}.{name}" for module, shown in SHOWN.items() if name in dir(importlib.import_module(module))]


def refuse(function: str, given: Iterable[str]) -> NoReturn:
    """Raise the TypeError for arguments that `function` does not take, with the names that replace them."""
    for name in given:
        replaced = _ARGUMENTS.get(name)
        text = f"{function}() got an unexpected keyword argument {name!r}"
        raise TypeError(text if replaced is None else f"{text}; use {replaced}")
    raise AssertionError("a refusal needs an argument")
