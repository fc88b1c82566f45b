"""The configuration of sessions that are given none, and TensorFlow's functions that change it.

    af.config.set_soft_device_placement(True)
    af.config.threading.set_inter_op_parallelism_threads(2)

They change it for sessions that are made afterwards, in this process. A session that is given a `Config` has that one.
A session of a cluster has no devices of its own: it ignores the settings of devices.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aioflow.config import Config, RunOptions
from aioflow.runtime.plan_cache import DEFAULT

if TYPE_CHECKING:
    from aioflow.net.config_messages import ConfigProto

AnyConfig: TypeAlias = "Config | ConfigProto"
"""The configuration of a session, also as TensorFlow's message."""
_default = Config()
_checks_numerics = False
_OF_DEVICES: Final = ("blas_threads", "compute_threads", "device_count", "memory_limit")


def default_config(of_cluster: bool = False) -> Config:
    """Return the configuration of a session that is given none."""
    if not of_cluster:
        return _default
    plain = Config()
    return dataclasses.replace(_default, **{name: getattr(plain, name) for name in _OF_DEVICES})


def as_config(config: "AnyConfig | None") -> Config | None:
    """Return the Config of either form; None for None.

    Raises:
        TypeError: it has neither form.
        ValueError: it is a ConfigProto with a field that no session of aioflow can have.
    """
    if config is None or isinstance(config, Config):
        return config
    from aioflow.net.config_of_message import config_of

    return config_of(config)


def change_default(**fields: Any) -> None:
    """Change fields of it. TypeError or ValueError, and no change, if one of them is invalid."""
    global _default
    _default = dataclasses.replace(_default, **fields)


def get_soft_device_placement() -> bool:
    """Whether sessions without a Config let operations run on another device than the one that they ask for.

    Examples:
        >>> af.config.get_soft_device_placement()
        False
    """
    return _default.allow_soft_placement


def set_soft_device_placement(enabled: bool) -> None:
    """Set `allow_soft_placement` of sessions that are made afterwards without a Config.

    Examples:
        >>> af.config.set_soft_device_placement(False)
        >>> af.Session().config.allow_soft_placement
        False
    """
    change_default(allow_soft_placement=enabled)


def get_log_device_placement() -> bool:
    """Whether sessions without a Config log where operations are placed.

    Examples:
        >>> af.debugging.get_log_device_placement()
        False
    """
    return _default.log_device_placement


def set_log_device_placement(enabled: bool) -> None:
    """Set `log_device_placement` of sessions that are made afterwards without a Config.

    Examples:
        >>> af.debugging.set_log_device_placement(False)
    """
    change_default(log_device_placement=enabled)


def get_inter_op_parallelism_threads() -> int:
    """Return the threads of a device for heavy kernels, in sessions without a Config.

    Examples:
        >>> af.config.threading.get_inter_op_parallelism_threads() == af.Config().compute_threads
        True
    """
    return _default.compute_threads


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Set `compute_threads` of sessions that are made afterwards without a Config; 0 is a thread for each core.

    Examples:
        >>> af.config.threading.set_inter_op_parallelism_threads(0)
    """
    change_default(compute_threads=Config().compute_threads if num_threads == 0 else num_threads)


def get_intra_op_parallelism_threads() -> int:
    """Return the threads of NumPy's matrix products in sessions without a Config; 0 for no change.

    Examples:
        >>> af.config.threading.get_intra_op_parallelism_threads()
        0
    """
    return _default.blas_threads or 0


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Set `blas_threads` of sessions that are made afterwards without a Config; 0 is no change.

    Examples:
        >>> af.config.threading.set_intra_op_parallelism_threads(0)
    """
    change_default(blas_threads=None if num_threads == 0 else num_threads)


def get_experimental_options() -> dict[str, bool]:
    """Return what plans do to graphs, in sessions without a Config: `disable_meta_optimizer` alone.

    Examples:
        >>> af.config.optimizer.get_experimental_options()
        {'disable_meta_optimizer': False}
    """
    return {"disable_meta_optimizer": not _default.optimize}


def set_experimental_options(options: dict[str, bool]) -> None:
    """Set `optimize` of sessions that are made afterwards without a Config, by `disable_meta_optimizer`.

    ValueError for other options: all passes are on together, or off, and none changes a result.

    Examples:
        >>> af.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
    """
    for name in options:
        if name != "disable_meta_optimizer":
            raise ValueError(f"{name!r} cannot be set alone: give disable_meta_optimizer, or af.Config(optimize=)")
    if options:
        change_default(optimize=not options["disable_meta_optimizer"])


def get_jit() -> str:
    """Return the text by which TensorFlow says that XLA compiles nothing: there is no XLA.

    Examples:
        >>> af.config.optimizer.get_jit()
        ''
    """
    return ""


def set_jit(enabled: bool | str) -> None:
    """Do nothing: operations that never wait are always compiled together.

    Examples:
        >>> af.config.optimizer.set_jit(True)
    """


def run_options(options: RunOptions | None) -> RunOptions:
    """Return the options of a run, which checks numbers if all runs of this process do."""
    if not _checks_numerics:
        return options or DEFAULT
    return dataclasses.replace(options or DEFAULT, check_numerics=True)


def enable_check_numerics(stack_height_limit: int = 30, path_length_limit: int = 50) -> None:
    """Make all later runs of this process check that numbers are finite, as RunOptions(check_numerics=True) does.

    A run ends at the first tensor that is not finite with InvalidArgumentError, which names its operation and the line
    that built it. May be called again.

    Args:
        stack_height_limit: without effect: the error has one line.
        path_length_limit: without effect.

    Examples:
        >>> af.debugging.enable_check_numerics()
        >>> try:
        ...     await session.run(af.log(af.constant(0.0)))
        ... except af.errors.InvalidArgumentError as error:
        ...     print(error.op)
        log
        >>> af.debugging.disable_check_numerics()
    """
    _set_checks_numerics(True)


def disable_check_numerics() -> None:
    """Make later runs check numbers only where their RunOptions say so.

    Examples:
        >>> af.debugging.disable_check_numerics()
        >>> print(await session.run(af.log(af.constant(0.0))))
        -inf
    """
    _set_checks_numerics(False)


def _set_checks_numerics(checks: bool) -> None:
    global _checks_numerics
    _checks_numerics = checks
