"""Switches that programs for TensorFlow 1 set at their start. aioflow always behaves as they ask."""


def disable_v2_behavior() -> None:
    """Do nothing: aioflow behaves as TensorFlow 1 does.

    Examples:
        >>> af.disable_v2_behavior()
    """


def disable_eager_execution() -> None:
    """Do nothing: aioflow always builds a graph first, and a session runs it.

    Examples:
        >>> af.disable_eager_execution()
    """


def executing_eagerly() -> bool:
    """Return False: operations are built, and run later.

    Examples:
        >>> af.executing_eagerly()
        False
    """
    return False


def executing_eagerly_outside_functions() -> bool:
    """Return False: operations are built, and run later.

    Examples:
        >>> af.executing_eagerly_outside_functions()
        False
    """
    return False


def disable_tensor_equality() -> None:
    """Do nothing: `==` of two tensors says whether they are the same object.

    Examples:
        >>> af.disable_tensor_equality()
    """


def disable_v2_tensorshape() -> None:
    """Do nothing: the elements of a TensorShape are Dimensions.

    Examples:
        >>> af.disable_v2_tensorshape()
    """


def enable_resource_variables() -> None:
    """Do nothing: there is one kind of variable, whose reads follow the control dependencies.

    Examples:
        >>> af.enable_resource_variables()
    """


def disable_resource_variables() -> None:
    """Do nothing: there is one kind of variable, whose reads follow the control dependencies.

    Examples:
        >>> af.disable_resource_variables()
    """


def resource_variables_enabled() -> bool:
    """True: reads of variables follow the control dependencies.

    Examples:
        >>> af.resource_variables_enabled()
        True
    """
    return True


def enable_control_flow_v2() -> None:
    """Do nothing: `cond` and `while_loop` compute the same however they are built.

    Examples:
        >>> af.enable_control_flow_v2()
    """


def disable_control_flow_v2() -> None:
    """Do nothing: `cond` and `while_loop` compute the same however they are built.

    Examples:
        >>> af.disable_control_flow_v2()
    """


def control_flow_v2_enabled() -> bool:
    """True: `cond` and `while_loop` may be nested in any way, and be differentiated.

    Examples:
        >>> af.control_flow_v2_enabled()
        True
    """
    return True
