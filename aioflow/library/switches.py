"""Switches that programs for TensorFlow 1 set at their start. aioflow always behaves as they ask."""


def disable_v2_behavior() -> None:
    """Do nothing: aioflow behaves as TensorFlow 1 does."""


def disable_eager_execution() -> None:
    """Do nothing: aioflow always builds a graph first, and a session runs it."""


def executing_eagerly() -> bool:
    """Return False: operations are built, and run later."""
    return False


def executing_eagerly_outside_functions() -> bool:
    """Return False: operations are built, and run later."""
    return False


def disable_tensor_equality() -> None:
    """Do nothing: `==` of two tensors says whether they are the same object."""


def disable_v2_tensorshape() -> None:
    """Do nothing: the elements of a TensorShape are Dimensions."""


def enable_resource_variables() -> None:
    """Do nothing: there is one kind of variable, whose reads follow the control dependencies."""


def disable_resource_variables() -> None:
    """Do nothing: there is one kind of variable, whose reads follow the control dependencies."""


def enable_control_flow_v2() -> None:
    """Do nothing: `cond` and `while_loop` compute the same however they are built."""


def disable_control_flow_v2() -> None:
    """Do nothing: `cond` and `while_loop` compute the same however they are built."""
