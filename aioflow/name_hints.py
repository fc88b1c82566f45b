"""Hints for names that aioflow lacks: the replacement of a TensorFlow 1.x name, or a similar name.

Only errors use the tables.
"""

import difflib
import importlib
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

SHOWN: Final = {
    "aioflow": "af",
    "aioflow.config": "af.config",
    "aioflow.data": "af.data",
    "aioflow.data.experimental": "af.data.experimental",
    "aioflow.errors": "af.errors",
    "aioflow.launch": "af.launch",
    "aioflow.layers.activations": "af.activations",
    "aioflow.layers.callbacks": "af.callbacks",
    "aioflow.layers.constraints": "af.constraints",
    "aioflow.layers.distribute": "af.distribute",
    "aioflow.layers.regularizers": "af.regularizers",
    "aioflow.layers": "af.layers",
    "aioflow.library.audio": "af.audio",
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
    "aioflow.library.linalg_experimental": "af.linalg.experimental",
    "aioflow.library.losses": "af.losses",
    "aioflow.library.manip": "af.manip",
    "aioflow.library.math": "af.math",
    "aioflow.library.math_special": "af.math.special",
    "aioflow.library.metrics": "af.metrics",
    "aioflow.library.nn": "af.nn",
    "aioflow.library.python_io": "af.python_io",
    "aioflow.library.quantization": "af.quantization",
    "aioflow.library.queue_names": "af.queue",
    "aioflow.library.ragged": "af.ragged",
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
    "aioflow.session.config_optimizer": "af.config.optimizer",
    "aioflow.session.config_threading": "af.config.threading",
    "aioflow.porting": "af.porting",
    "aioflow.saved_model": "af.saved_model",
    "aioflow.saved_model.builder": "af.saved_model.builder",
    "aioflow.saved_model.constants": "af.saved_model.constants",
    "aioflow.saved_model.loader": "af.saved_model.loader",
    "aioflow.saved_model.main_op": "af.saved_model.main_op",
    "aioflow.saved_model.signature_constants": "af.saved_model.signature_constants",
    "aioflow.saved_model.signature_def_utils": "af.saved_model.signature_def_utils",
    "aioflow.saved_model.tag_constants": "af.saved_model.tag_constants",
    "aioflow.saved_model.utils": "af.saved_model.utils",
    "aioflow.dashboard": "af.dashboard",
    "aioflow.serving": "af.serving",
    "aioflow.summary": "af.summary",
    "aioflow.tensorflow_files": "af.tensorflow_files",
    "aioflow.tensors.nest": "af.nest",
    "aioflow.testing.tensorflow_names": "af.test",
    "aioflow.train": "af.train",
    "aioflow.version": "af.version",
}
"""The modules that users name, as they write them."""

_EAGER: Final = "a graph is always built first, then run: `await af.Session(graph=graph).run(fetches, feeds)`"
_COMPILED: Final = "nothing is compiled against aioflow"
_TRACEBACKS: Final = "errors name the operation, and the line of the program that made it"
_KERAS: Final = "use af.layers, af.Sequential, af.Model, af.callbacks, af.losses and af.metrics"

_SHARD: Final = "give each worker its part by Dataset.shard"
_NO_VARIANT: Final = "a dataset is no tensor: af.data.Iterator has its elements in a graph"

INSTEAD: Final[Mapping[str, str]] = {
    "af.CXX11_ABI_FLAG": _COMPILED,
    "af.CXX_VERSION": _COMPILED,
    "af.ConditionalAccumulatorV1": "use af.ConditionalAccumulator",
    "af.Defun": "call an ordinary function that builds operations",
    "af.GradientTape": "use af.gradients(ys, xs)",
    "af.InteractiveSession": "use `async with af.Session()`, inside which `await tensor.eval()` works",
    "af.MONOLITHIC_BUILD": _COMPILED,
    "af.app": "use asyncio.run(main())",
    "af.autograph": "use af.cond, af.while_loop and af.map_fn",
    "af.compat": "the names of TensorFlow 1.x are at the top: af.placeholder, af.Session",
    "af.contrib": "what is kept of it has a place in af, as af.collectives for contrib.nccl",
    "af.config.experimental": "use af.config, or af.Config(memory_limit=) for the memory of devices",
    "af.config.experimental_connect_to_cluster": "use af.Session(target)",
    "af.config.experimental_connect_to_host": "use af.Session(target)",
    "af.data.experimental.AutoShardPolicy": _SHARD,
    "af.data.experimental.DistributeOptions": _SHARD,
    "af.data.experimental.ExternalStatePolicy": "DatasetIterator.state() has positions and no state from elsewhere",
    "af.data.experimental.SHARD_HINT": _SHARD,
    "af.data.experimental.ServiceOptions": "iterate the dataset on each worker, with its part by Dataset.shard",
    "af.data.experimental.distributed_save": "use Dataset.save on each worker, with its part by Dataset.shard",
    "af.data.experimental.enable_debug_mode": "functions of datasets are always plain Python",
    "af.data.experimental.from_variant": _NO_VARIANT,
    "af.data.experimental.get_model_proto": "use DatasetIterator.explain()",
    "af.data.experimental.make_saveable_from_iterator": "save DatasetIterator.state(), which is plain data",
    "af.data.experimental.to_variant": _NO_VARIANT,
    "af.debugging.disable_traceback_filtering": _TRACEBACKS,
    "af.debugging.enable_traceback_filtering": _TRACEBACKS,
    "af.debugging.experimental": "use af.RunOptions(check_numerics=True), or af.RunOptions(trace=True)",
    "af.debugging.is_traceback_filtering_enabled": _TRACEBACKS,
    "af.enable_eager_execution": _EAGER,
    "af.enable_v2_behavior": _EAGER,
    "af.enable_tensor_equality": "`==` of tensors asks for the same object; use af.equal",
    "af.enable_v2_tensorshape": "the sizes of a TensorShape are Dimensions: use `.value`, or TensorShape.as_list()",
    "af.estimator": "use af.train.MonitoredTrainingSession",
    "af.examples": "TensorFlow's example data is gone: load the data with NumPy",
    "af.feature_column": "use af.one_hot and af.nn.embedding_lookup",
    "af.flags": "use argparse",
    "af.function": _EAGER,
    "af.global_norm_v2": "use af.global_norm",
    "af.keras": _KERAS,
    "af.layers.average_pooling2d": "use af.layers.AveragePooling2D(...)(x)",
    "af.layers.batch_normalization": "use af.layers.BatchNormalization()(x)",
    "af.layers.conv2d": "use af.layers.Conv2D(...)(x)",
    "af.layers.dense": "use af.layers.Dense(...)(x)",
    "af.layers.dropout": "use af.nn.dropout, or af.layers.Dropout(...)(x)",
    "af.layers.flatten": "use af.layers.Flatten()(x)",
    "af.layers.max_pooling2d": "use af.layers.MaxPooling2D(...)(x)",
    "af.load_op_library": "use af.py_func",
    "af.profiler": "use af.RunOptions(trace=True) and af.RunMetadata",
    "af.quantization.experimental": "store the weights of a model by af.quantization.quantize",
    "af.size_v2": "use af.size",
    "af.sysconfig": _COMPILED,
    "af.test.Benchmark": "time `await session.run(...)` with time.perf_counter",
    "af.test.StubOutForTesting": "use unittest.mock",
    "af.test.create_local_cluster": "use aioflow.testing.cluster",
    "af.test.disable_with_predicate": "use unittest.skipIf",
    "af.test.experimental": "`await session.run(...)` returns when the devices are done",
    "af.test.test_src_dir_path": "use pathlib.Path(__file__).parent",
    "af.test.with_eager_op_as_function": _EAGER,
    "af.user_ops": "use af.py_func",
    "af.nn.sigmoid_cross_entropy": "use af.losses.sigmoid_cross_entropy",
    "af.nn.softmax_cross_entropy": "use af.losses.softmax_cross_entropy",
    "af.saved_model.Asset": "give files to af.saved_model.save(assets=) by name",
    "af.saved_model.SaveOptions": "give options to af.saved_model.save",
    "af.saved_model.experimental": "use af.saved_model.save",
    "af.saved_model.main_op_with_restore": "af.saved_model.load gives variables and tables their content",
    "af.strings.unicode_script": "Python has no table of the scripts of characters; use af.py_func and a library",
    "af.variant": "lists of tensors are a TensorArray; other objects stay in Python, behind af.py_func",
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


def is_there(path: str) -> bool:
    """Whether a path below `af` begins with a public name that is no module."""
    modules = {shown: module for module, shown in SHOWN.items()}
    shown, *rest = ["af", *path.split(".")]
    while rest and f"{shown}.{rest[0]}" in modules:
        shown = f"{shown}.{rest.pop(0)}"
    return bool(rest) and rest[0] in dir(importlib.import_module(modules[shown]))


def instead(path: str) -> str:
    """Return what to use instead of a name of TensorFlow's, by its path below `tf`, or of a module that it is in."""
    parts = path.split(".")
    names = (".".join(["af", *parts[:end]]) for end in range(len(parts), 0, -1))
    return next((INSTEAD[name] for name in names if name in INSTEAD), "")


def _elsewhere(name: str) -> list[str]:
    return [f"{shown}.{name}" for module, shown in SHOWN.items() if name in dir(importlib.import_module(module))]


def refuse(function: str, given: Iterable[str]) -> NoReturn:
    """Raise the TypeError for arguments that `function` does not take, with the names that replace them."""
    for name in given:
        replaced = _ARGUMENTS.get(name)
        text = f"{function}() got an unexpected keyword argument {name!r}"
        raise TypeError(text if replaced is None else f"{text}; use {replaced}")
    raise AssertionError("a refusal needs an argument")
