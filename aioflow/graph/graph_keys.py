"""The standard names of a graph's collections."""

from typing import Final


class GraphKeys:
    """Names under which the library keeps lists in a graph's collections.

    Examples:
        >>> af.GraphKeys.TRAINABLE_VARIABLES
        'trainable_variables'
    """

    GLOBAL_VARIABLES: Final = "variables"
    VARIABLES: Final = GLOBAL_VARIABLES
    LOCAL_VARIABLES: Final = "local_variables"
    MODEL_VARIABLES: Final = "model_variables"
    TRAINABLE_VARIABLES: Final = "trainable_variables"
    TRAINABLE_RESOURCE_VARIABLES: Final = "trainable_resource_variables"
    METRIC_VARIABLES: Final = "metric_variables"
    CONCATENATED_VARIABLES: Final = "concatenated_variables"
    MOVING_AVERAGE_VARIABLES: Final = "moving_average_variables"
    SUMMARIES: Final = "summaries"
    SUMMARY_OP: Final = "summary_op"
    QUEUE_RUNNERS: Final = "queue_runners"
    TABLE_INITIALIZERS: Final = "table_initializer"
    ASSET_FILEPATHS: Final = "asset_filepaths"
    RESOURCES: Final = "resources"
    LOCAL_RESOURCES: Final = "local_resources"
    LOSSES: Final = "losses"
    REGULARIZATION_LOSSES: Final = "regularization_losses"
    WEIGHTS: Final = "weights"
    BIASES: Final = "biases"
    ACTIVATIONS: Final = "activations"
    UPDATE_OPS: Final = "update_ops"
    TRAIN_OP: Final = "train_op"
    GLOBAL_STEP: Final = "global_step"
    EVAL_STEP: Final = "eval_step"
    STEP_BOUNDARIES: Final = "step_boundaries"
    INIT_OP: Final = "init_op"
    LOCAL_INIT_OP: Final = "local_init_op"
    READY_OP: Final = "ready_op"
    READY_FOR_LOCAL_INIT_OP: Final = "ready_for_local_init_op"
    SAVERS: Final = "savers"
    SAVEABLE_OBJECTS: Final = "saveable_objects"
    COND_CONTEXT: Final = "cond_context"
    WHILE_CONTEXT: Final = "while_context"
