"""Options of datasets, under TensorFlow's names.

They permit TensorFlow to be faster, and change no element. aioflow is as fast without them: elements always come in
their order, and `num_parallel_calls`, `prefetch` and the bounds of buffers say how much runs at a time. So a program
that sets them runs; names that TensorFlow does not have are refused.
"""

import enum
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

from aioflow.data.position import Position
from aioflow.data.stage import Cursor, OneToOne, Run, Stage
from aioflow.tensors.recursion import safe_repr

Types = type | tuple[type, ...]


class _OptionSet:
    """Named values, each of a type, which are None until they are set."""

    _types: ClassVar[Mapping[str, Types]] = {}

    def __init__(self) -> None:
        self._given: Final[dict[str, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        """The value of an option. AttributeError if there is no option of that name."""
        if name.startswith("_") or name not in self._types:
            raise AttributeError(self._unknown(name), name=name, obj=self)
        kind = self._types[name]
        if isinstance(kind, type) and issubclass(kind, _OptionSet):
            return self._given.setdefault(name, kind())
        return self._given.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an option. AttributeError if there is none of that name, TypeError for a value of another type."""
        if name == "_given":
            object.__setattr__(self, name, value)
        elif name not in self._types:
            raise AttributeError(self._unknown(name), name=name, obj=self)
        elif not isinstance(value, self._types[name]):
            raise TypeError(f"{type(self).__name__}.{name} cannot be {safe_repr(value)}")
        else:
            self._given[name] = value

    def _unknown(self, name: str) -> str:
        return f"{type(self).__name__} has no option {name!r}; it has {', '.join(self._types)}"

    def merge(self, options: Self) -> Self:
        """Return the options of both; where both set one, that of the other set."""
        made = type(self)()
        for name, value in [*self._given.items(), *options._given.items()]:
            before = made._given.get(name)
            made._given[name] = before.merge(value) if isinstance(before, _OptionSet) else value
        return made

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._set_values() == other._set_values()

    def __hash__(self) -> int:
        return id(self)

    def _set_values(self) -> dict[str, Any]:
        """The options that are set, without sets of options of which none is."""
        return {name: value for name, value in self._given.items() if not isinstance(value, _OptionSet) or value._given}

    def __repr__(self) -> str:
        parts = [f"{name}={value!r}" for name, value in self._set_values().items()]
        return f"{type(self).__name__}({', '.join(parts)})"


class AutotuneAlgorithm(enum.Enum):
    """How TensorFlow chooses numbers of parallel calls.

    Examples:
        >>> af.data.experimental.AutotuneAlgorithm.DEFAULT.value
        0
    """

    DEFAULT = 0
    HILL_CLIMB = 1
    GRADIENT_DESCENT = 2
    MAX_PARALLELISM = 3
    STAGE_BASED = 4


class AutotuneOptions(_OptionSet):
    """How TensorFlow tunes itself; without an effect here.

    Examples:
        >>> options = af.data.Options()
        >>> options.autotune.enabled = False
        >>> options
        Options(autotune=AutotuneOptions(enabled=False))
    """

    _types: ClassVar[Mapping[str, Types]] = {
        "enabled": bool, "cpu_budget": int, "ram_budget": int, "autotune_algorithm": AutotuneAlgorithm,
        "initial_parallelism": int, "min_parallelism": int,
    }  # fmt: skip


class ThreadingOptions(_OptionSet):
    """How many threads TensorFlow uses; without an effect here: calls run on the threads of the loop's executor.

    Examples:
        >>> options = af.data.Options()
        >>> options.threading.private_threadpool_size = 4
        >>> options.threading
        ThreadingOptions(private_threadpool_size=4)
    """

    _types: ClassVar[Mapping[str, Types]] = {"max_intra_op_parallelism": int, "private_threadpool_size": int}


class OptimizationOptions(_OptionSet):
    """How TensorFlow rewrites pipelines; without an effect here.

    Examples:
        >>> af.data.experimental.OptimizationOptions().noop_elimination is None
        True
    """

    _types: ClassVar[Mapping[str, Types]] = dict.fromkeys(
        [
            "apply_default_optimizations", "filter_fusion", "filter_parallelization", "inject_prefetch",
            "map_and_batch_fusion", "map_and_filter_fusion", "map_fusion", "map_parallelization", "noop_elimination",
            "parallel_batch", "seq_interleave_prefetch", "shuffle_and_repeat_fusion",
        ],
        bool,
    )  # fmt: skip


class Options(_OptionSet):
    """Options of a dataset, for `Dataset.with_options`. They change no element, and the order always stays.

    Examples:
        >>> options = af.data.Options()
        >>> options.deterministic = False
        >>> af.data.Dataset.range(3).with_options(options).options()
        Options(deterministic=False)
    """

    _types: ClassVar[Mapping[str, Types]] = {
        "autotune": AutotuneOptions, "dataset_name": str, "deterministic": bool, "experimental_deterministic": bool,
        "experimental_optimization": OptimizationOptions, "experimental_slack": bool,
        "experimental_symbolic_checkpoint": bool, "experimental_threading": ThreadingOptions,
        "experimental_warm_start": bool, "framework_type": list, "threading": ThreadingOptions,
    }  # fmt: skip


class WithOptions(OneToOne):
    """The elements of the input, with the same positions.

    Attributes:
        options: the options of the dataset.
    """

    name = "with_options"

    def __init__(self, source: Stage, options: Options) -> None:
        super().__init__(source.spec, source)
        self.options: Final = options

    def begin(self, run: Run, position: Position = None) -> Cursor[Any]:
        """Return a cursor of the input."""
        return self.inputs[0].begin(run, position)

    def __str__(self) -> str:
        return str(self.inputs[0])


def options_of(stage: Stage) -> Options:
    """Return the options that were set for a stage and those before it, the latest of each."""
    found = Options()
    for source in stage.inputs:
        found = found.merge(options_of(source))
    return found.merge(stage.options) if isinstance(stage, WithOptions) else found
