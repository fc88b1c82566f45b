"""What is not compared, and why."""

from oracle.table import excuse

MACHINERY = "it is a part of loops and branches, which are compared as a whole"

excuse(
    "its numbers are Philox's; the tests compare distributions",
    "random_*",
    "stateless_*",
    "truncated_normal",
    "sample_crop",
    "multinomial",
    "uniform_candidate_sampler",
    "log_uniform_candidate_sampler",
)
excuse(
    "TensorFlow has no such op",
    "cast_narrow",
    "per_row",
    "fitting_weights",
    "same_shape",
    "acquire_variable_lock",
    "release_variable_lock",
    "keep_variable_lock",
    "variable_lock_ticket",
    "ctc_loss_curvature",
    "lossy*",
    "replica_*",
    "stored_names",
    "sum_for_peers",
)
excuse("plans make it, between devices", "pulse", "recv", "send", "swap_*", "to_device", "to_host")
excuse(
    "the strings have another form than TensorFlow's, which are protocol buffers",
    "serialize_sparse",
    "serialize_many_sparse",
    "deserialize_many_sparse",
)
excuse("oracle/test_generators.py compares them", "generator_*", "advance_generator_variable")
excuse("TensorFlow multiplies no variable", "assign_mul_variable")
excuse("it reads what may not be there yet: for initial values only", "read_variable_or")
excuse("made by plans only", "feed")
excuse("every line feeds it", "placeholder")
excuse("it has no result to compare", "no_op", "print")
excuse("it calls Python", "py_func")
excuse("a dataset is compared as a whole", "*iterator*")
excuse("TensorBoard's own reader reads it in the tests", "*_summary")
excuse("its tests show when it fails; it has no other result", "assert*")
excuse(
    MACHINERY,
    "absent",
    "argument",
    "completed",
    "no_records",
    "recorded",
    "replayed",
    "tensor_list_*",
    "tensor_array_clear",
)
excuse(
    MACHINERY,
    "control_trigger",
    "enter",
    "exit",
    "loop_cond",
    "merge",
    "next_iteration",
    "switch",
    "stack_*_v2",
    "stack_v2",
)
excuse("a pass makes it of conv2d and bias_add", "conv2d_with_bias")
excuse(
    "a pass makes it of operations that are compared", "fused_conv2d", "channel_steps", "channel_shuffle", "row_product"
)
WAITING = "it waits, or holds what outlives a step: its tests compare it with a model"
excuse(
    WAITING, "*accumulator*", "barrier*", "*queue", "queue_*", "stage", "stage_*", "staging_area", "unstage", "map_*"
)
excuse("it holds what outlives a run: its tests compare it", "get_session_*", "delete_session_tensor")
excuse(WAITING, "row_batches", "batch", "unbatch", "unbatch_grad")
excuse(WAITING, "*_reader", "reader_*")
excuse(
    "its values are those that were put there: tests of lookup tables compare them",
    "*hash_table",
    "initialize_table*",
    "lookup_table_*",
)
excuse("checkpoints have another form than TensorFlow's", "*_checkpoint", "save_shard", "restore_tensor")
excuse("it takes or gives values for checkpoints", "mark_*", "cut_*", "adopt_variable", "restore_queue", "*run_counts")
FILES = "files and their formats are compared by tests/data/input.json, which TensorFlow made"
excuse(FILES, "decode_and_crop_jpeg", "decode_bmp", "decode_compressed", "decode_csv", "decode_gif", "decode_image")
excuse(FILES, "decode_jpeg", "decode_json_example", "decode_npy", "decode_png", "encode_jpeg", "encode_png")
excuse("the tests compare its pixels with those of Pillow", "decode_webp")
excuse("its bytes depend on the library; the tests compare its pixels", "encode_jpeg_of_quality")
excuse(FILES, "extract_jpeg_shape", "is_jpeg", "matching_files", "parse_*", "*serialize_*", "read_file", "write_file")
