"""aioflow: TensorFlow's dataflow system for asyncio. Describe a computation once as a graph, then await its steps.

    import aioflow as af

    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [None, 3])
        y = af.reduce_sum(af.tanh(x))

    async def main(batch):
        async with af.Session(graph=graph) as session:
            return await session.run(y, {x: batch})

Everything public is listed here, and imported when a program first names it. Importing aioflow starts nothing.
"""

from aioflow.lazy import Face

_face = Face(__name__, {
    ".": (
        "config dashboard data errors launch layers onnx porting saved_model serving summary tensorflow_files train "
        "version"
    ),
    "aioflow.autodiff.aggregate": "AggregationMethod",
    "aioflow.autodiff.gradients": "UnconnectedGradients gradients hessians",
    "aioflow.autodiff.rules": "NoGradient NotDifferentiable RegisterGradient no_gradient",
    "aioflow.config": "Config RunOptions",
    "aioflow.data.optional": "OptionalSpec",
    "aioflow.devices.device": "DeviceAttributes",
    "aioflow.devices.memory": "MemoryUse",
    "aioflow.errors": "OpError",
    "aioflow.graph.building": "get_default_graph reset_default_graph",
    "aioflow.graph.convert": "convert_to_tensor",
    "aioflow.graph.device_spec": "DeviceSpec",
    "aioflow.graph.graph": "Graph",
    "aioflow.graph.graph_keys": "GraphKeys",
    "aioflow.graph.graphdef": "GraphDef",
    "aioflow.graph.import_graph_def": "import_graph_def",
    "aioflow.graph.indexed_slices": "IndexedSlices IndexedSlicesValue",
    "aioflow.graph.operation": "Operation Tensor",
    "aioflow.graph.sparse_tensor": "SparseTensor SparseTensorValue",
    "aioflow.kernels.array.arrays": "diag diag_part matrix_transpose meshgrid reverse tile transpose",
    "aioflow.kernels.array.concat": "concat split stack unstack",
    "aioflow.kernels.array.constants": (
        "constant eye fill identity identity_n no_op ones ones_like placeholder placeholder_with_default "
        "prevent_gradient stop_gradient zeros zeros_like"
    ),
    "aioflow.kernels.array.gather": "gather scatter_nd unravel_index",
    "aioflow.kernels.array.pad": "pad",
    "aioflow.kernels.array.partition": (
        "batch_gather broadcast_dynamic_shape broadcast_static_shape dynamic_partition dynamic_stitch ensure_shape "
        "guarantee_const"
    ),
    "aioflow.kernels.array.ranges": "linspace one_hot range",
    "aioflow.kernels.array.scatter": (
        "tensor_scatter_add tensor_scatter_nd_add=tensor_scatter_add "
        "tensor_scatter_nd_max=tensor_scatter_max tensor_scatter_nd_min=tensor_scatter_min "
        "tensor_scatter_nd_sub=tensor_scatter_sub "
        "tensor_scatter_nd_update=tensor_scatter_update tensor_scatter_sub tensor_scatter_update"
    ),
    "aioflow.kernels.array.select": "boolean_mask masked select sequence_mask where",
    "aioflow.kernels.array.sequence": (
        "edit_distance listdiff reverse_sequence roll searchsorted setdiff1d unique_with_counts"
    ),
    "aioflow.kernels.array.shapes": "broadcast_to expand_dims rank reshape shape shape_n size squeeze",
    "aioflow.kernels.array.slicing": "slice strided_slice",
    "aioflow.kernels.array.sorting": (
        "argsort invert_permutation is_non_decreasing is_strictly_increasing nth_element sort top_k unique"
    ),
    "aioflow.kernels.array.space_to_batch": (
        "batch_to_space batch_to_space_nd depth_to_space space_to_batch space_to_batch_nd space_to_depth"
    ),
    "aioflow.kernels.control.assertions": (
        "Assert assert_equal assert_greater assert_greater_equal assert_integer assert_less assert_less_equal "
        "assert_near assert_negative assert_non_negative assert_non_positive assert_none_equal assert_positive "
        "assert_rank assert_rank_at_least assert_rank_in assert_same_float_dtype assert_scalar assert_type"
    ),
    "aioflow.kernels.control.control_flow": "control_trigger enter exit loop_cond merge next_iteration switch",
    "aioflow.kernels.control.debugging": (
        "Print add_check_numerics_ops brackets check_numerics summarize_value timestamp verify_tensor_all_finite"
    ),
    "aioflow.kernels.control.lossy": "lossy",
    "aioflow.kernels.control.py_func": "numpy_function py_func",
    "aioflow.kernels.control.stacks": "stack_close_v2 stack_pop_v2 stack_push_v2 stack_v2",
    "aioflow.kernels.data.decoders": "decode_compressed decode_csv decode_npy decode_raw",
    "aioflow.kernels.data.json_examples": "decode_json_example",
    "aioflow.kernels.data.node_messages": "AttrValue NameAttrList NodeDef",
    "aioflow.kernels.data.tensor_messages": "make_ndarray make_tensor_proto parse_tensor serialize_tensor",
    "aioflow.kernels.linalg.decompositions": "cholesky qr self_adjoint_eig self_adjoint_eigvals svd",
    "aioflow.kernels.linalg.determinants": "log_matrix_determinant matrix_determinant",
    "aioflow.kernels.linalg.diagonals": "matrix_band_part matrix_diag matrix_diag_part matrix_set_diag",
    "aioflow.kernels.linalg.least_squares": "matrix_solve_ls",
    "aioflow.kernels.linalg.matmul": "matmul",
    "aioflow.kernels.linalg.norms": "norm trace",
    "aioflow.kernels.linalg.products": "cross einsum tensordot",
    "aioflow.kernels.linalg.roots": "matrix_square_root",
    "aioflow.kernels.linalg.solvers": (
        "cholesky_solve matrix_exponential matrix_inverse matrix_solve matrix_triangular_solve"
    ),
    "aioflow.kernels.math.arithmetic": (
        "add add_n divide floordiv floormod maximum minimum mod multiply pow realdiv=truediv squared_difference "
        "subtract truediv"
    ),
    "aioflow.kernels.math.casting": "bitcast cast saturate_cast to_bfloat16 to_double to_float to_int32 to_int64",
    "aioflow.kernels.math.comparison": (
        "bitwise_and bitwise_or bitwise_xor equal greater greater_equal invert left_shift less less_equal logical_and "
        "logical_not logical_or logical_xor not_equal population_count right_shift"
    ),
    "aioflow.kernels.math.complex": "angle complex conj imag real",
    "aioflow.kernels.math.cumulative": "accumulate_n cumprod cumsum cumulative_logsumexp polyval",
    "aioflow.kernels.math.division": (
        "div divide_no_nan floor_div log_sigmoid reciprocal_no_nan truncatediv truncatemod xlogy"
    ),
    "aioflow.kernels.math.elementwise": (
        "abs acos acosh asin asinh atan atan2 atanh cos cosh exp expm1 log log1p negative reciprocal rsqrt sigmoid "
        "sign sin sinh sqrt square tan tanh"
    ),
    "aioflow.kernels.math.gamma": "digamma igamma igammac lbeta lgamma polygamma zeta",
    "aioflow.kernels.math.histograms": "bincount confusion_matrix histogram_fixed_width histogram_fixed_width_bins",
    "aioflow.kernels.math.index_shuffle": "random_index_shuffle",
    "aioflow.kernels.math.incomplete_beta": "betainc",
    "aioflow.kernels.math.no_nan": "div_no_nan multiply_no_nan xdivy",
    "aioflow.kernels.math.random": (
        "get_seed multinomial random_normal random_shuffle random_uniform set_random_seed truncated_normal"
    ),
    "aioflow.kernels.math.random_distributions": "random_bernoulli random_gamma random_poisson",
    "aioflow.kernels.math.reduction": (
        "argmax argmin count_nonzero reduce_all reduce_any reduce_euclidean_norm reduce_logsumexp reduce_max "
        "reduce_mean reduce_min reduce_prod reduce_sum"
    ),
    "aioflow.kernels.math.rounding": "ceil clip_by_value floor is_finite is_inf is_nan rint round",
    "aioflow.kernels.math.segments": (
        "segment_max segment_mean segment_min segment_prod segment_sum unsorted_segment_sum"
    ),
    "aioflow.kernels.math.bessel_i": "bessel_i0 bessel_i0e bessel_i1 bessel_i1e",
    "aioflow.kernels.math.error_functions": "erf erfc erfinv ndtri",
    "aioflow.kernels.math.unsorted_segments": (
        "unsorted_segment_max unsorted_segment_mean unsorted_segment_min unsorted_segment_prod "
        "unsorted_segment_sqrt_n"
    ),
    "aioflow.kernels.math.variance": "reduce_std reduce_variance",
    "aioflow.kernels.nn.patches": "extract_image_patches",
    "aioflow.kernels.sparse.sets": "set_difference set_intersection set_size set_union",
    "aioflow.kernels.sparse.sparse_segments": "sparse_segment_mean sparse_segment_sqrt_n sparse_segment_sum",
    "aioflow.kernels.state.readers": "matching_files read_file write_file",
    "aioflow.kernels.text.string_hash": (
        "decode_base64 encode_base64 fingerprint string_to_hash_bucket string_to_hash_bucket_fast "
        "string_to_hash_bucket_strong"
    ),
    "aioflow.kernels.text.splitting": "string_split",
    "aioflow.kernels.text.strings": (
        "as_string reduce_join regex_full_match regex_replace string_join string_length string_lower string_strip "
        "string_to_number string_upper substr"
    ),
    "aioflow.layers": "activations callbacks constraints distribute regularizers",
    "aioflow.layers.model": "Input Model Sequential",
    "aioflow.library": (
        "audio bitwise collectives debugging distributions dtypes=dtype_names gfile graph_util image initializers io "
        "linalg logging lookup losses manip math metrics nn python_io quantization queue=queue_names ragged "
        "random resource_loader sets signal sparse=sparse_names sparse_names spectral strings weights_broadcast"
    ),
    "aioflow.library.accumulators": (
        "Barrier ConditionalAccumulator ConditionalAccumulatorBase SparseConditionalAccumulator"
    ),
    "aioflow.library.approximate_top_k": "approx_top_k",
    "aioflow.library.any_convolution": "conv",
    "aioflow.library.arrays": (
        "arg_max arg_min gather_nd is_numeric_tensor lin_space newaxis parallel_stack repeat reverse_v2 scalar_mul "
        "to_complex128 to_complex64 where_v2"
    ),
    "aioflow.library.batching": "BatchQueue batch_function nondifferentiable_batch_function",
    "aioflow.library.branches": "case cond switch_case",
    "aioflow.library.clip": "clip_by_average_norm clip_by_global_norm clip_by_norm global_norm",
    "aioflow.library.control": (
        "add_to_collection add_to_collections colocate_with container control_dependencies device get_collection "
        "get_collection_ref group init_scope is_tensor name_scope op_scope register_tensor_conversion_function tuple "
        "with_dependencies"
    ),
    "aioflow.library.convolution_gradients": "conv2d_backprop_filter_v2 conv2d_backprop_input_v2",
    "aioflow.library.critical_section": "CriticalSection",
    "aioflow.library.custom_gradient": "custom_gradient grad_pass_through recompute_grad",
    "aioflow.library.fake_quantisation": (
        "fake_quant_with_min_max_args fake_quant_with_min_max_args_gradient fake_quant_with_min_max_vars "
        "fake_quant_with_min_max_vars_gradient fake_quant_with_min_max_vars_per_channel "
        "fake_quant_with_min_max_vars_per_channel_gradient"
    ),
    "aioflow.library.fourier": "fft fft2d fft3d fftnd ifft ifft2d ifft3d ifftnd irfftnd rfftnd",
    "aioflow.library.functional": "foldl foldr map_fn scan",
    "aioflow.library.initializers": (
        "Initializer constant_initializer glorot_normal_initializer glorot_uniform_initializer identity_initializer "
        "ones_initializer orthogonal_initializer random_normal_initializer random_uniform_initializer "
        "truncated_normal_initializer uniform_unit_scaling_initializer variance_scaling_initializer zeros_initializer"
    ),
    "aioflow.library.known_values": (
        "assert_proper_iterable convert_to_tensor_or_indexed_slices get_static_value is_symbolic_tensor"
    ),
    "aioflow.library.logging": "get_logger",
    "aioflow.library.loops": "while_loop",
    "aioflow.library.parsing": (
        "FixedLenFeature FixedLenSequenceFeature SparseFeature VarLenFeature parse_example parse_single_example "
        "parse_single_sequence_example"
    ),
    "aioflow.library.module": "Module",
    "aioflow.library.partitioned_creation": "create_partitioned_variables",
    "aioflow.library.partitioners": (
        "fixed_size_partitioner min_max_variable_partitioner variable_axis_size_partitioner"
    ),
    "aioflow.library.printing": "print",
    "aioflow.library.py_function": "py_function",
    "aioflow.library.quantised_numbers": "dequantize quantize quantize_v2 quantized_concat",
    "aioflow.library.queues": "FIFOQueue PaddingFIFOQueue PriorityQueue QueueBase RandomShuffleQueue",
    "aioflow.library.random": "random_crop",
    "aioflow.library.readers": (
        "FixedLengthRecordReader IdentityReader LMDBReader ReaderBase TFRecordReader TextLineReader WholeFileReader"
    ),
    "aioflow.library.session_tensors": (
        "TensorHandle delete_session_tensor get_session_handle get_session_tensor"
    ),
    "aioflow.library.ragged.empty_rows": "ragged_fill_empty_rows ragged_fill_empty_rows_grad",
    "aioflow.library.ragged.spec": "RaggedTensorSpec",
    "aioflow.library.ragged.tensor": "RaggedTensor",
    "aioflow.library.sparse": (
        "convert_to_tensor_or_sparse_tensor deserialize_many_sparse from_dense serialize_many_sparse serialize_sparse "
        "sparse_add sparse_concat sparse_dense_cwise_div sparse_dense_cwise_mul sparse_fill_empty_rows "
        "sparse_placeholder sparse_reduce_sum sparse_reorder sparse_reshape sparse_retain sparse_slice sparse_softmax "
        "sparse_tensor_dense_matmul sparse_tensor_to_dense sparse_to_dense sparse_transpose"
    ),
    "aioflow.library.sparse_reduction": (
        "sparse_mask sparse_matmul sparse_maximum sparse_merge sparse_minimum sparse_reduce_max "
        "sparse_reduce_max_sparse sparse_reduce_sum_sparse sparse_reset_shape sparse_split sparse_to_indicator"
    ),
    "aioflow.library.space_to_batch": "required_space_to_batch_paddings",
    "aioflow.library.staging": "MapStagingArea StagingArea",
    "aioflow.library.state": (
        "all_variables assert_variables_initialized assign assign_add assign_mul assign_sub "
        "batch_scatter_update count_up_to global_variables global_variables_initializer initialize_all_variables "
        "initialize_local_variables initialize_variables is_variable_initialized local_variables "
        "local_variables_initializer model_variables moving_average_variables "
        "report_uninitialized_variables scatter_add scatter_div scatter_max scatter_min scatter_mul scatter_nd_add "
        "scatter_nd_sub scatter_nd_update scatter_sub scatter_update trainable_variables variables_initializer"
    ),
    "aioflow.library.switches": (
        "control_flow_v2_enabled disable_control_flow_v2 disable_eager_execution disable_resource_variables "
        "disable_tensor_equality disable_v2_behavior disable_v2_tensorshape enable_control_flow_v2 "
        "enable_resource_variables executing_eagerly executing_eagerly_outside_functions resource_variables_enabled"
    ),
    "aioflow.library.table_initializers": "initialize_all_tables tables_initializer",
    "aioflow.library.templates": "Template make_template",
    "aioflow.library.tensor_array": "TensorArray",
    "aioflow.library.type_specs": (
        "IndexedSlicesSpec NoneTensorSpec SparseTensorSpec TensorArraySpec TensorSpec TypeSpec type_spec_from_value"
    ),
    "aioflow.library.variable_scope": (
        "AUTO_REUSE VariableScope get_local_variable get_variable get_variable_scope "
        "no_regularizer variable_op_scope variable_scope"
    ),
    "aioflow.library.variables": "Variable VariableAggregation VariableSynchronization variable_creator_scope",
    "aioflow.library.vectorized_map": "vectorized_map",
    "aioflow.library.volume_patches": "extract_volume_patches",
    "aioflow.net.config_messages": "ConfigProto GPUOptions GraphOptions OptimizerOptions",
    "aioflow.plan.cost_model": "CostModel Link",
    "aioflow.plan.op_cost": "Rates",
    "aioflow.plan.placement.report": "Placement",
    "aioflow.porting.comparison": "Comparison Difference compare",
    "aioflow.porting.learning_off": "check_learning_off",
    "aioflow.porting.parameters": "ParameterReport parameter_report",
    "aioflow.saved_model.meta_graph": "MetaGraphDef",
    "aioflow.saved_model.tensor_info": "TensorInfo",
    "aioflow.session": "Session get_default_session",
    "aioflow.session.request_batcher": "BatchingStatistics RequestBatcher",
    "aioflow.session.reset": "reset",
    "aioflow.summary.messages": "Event HistogramProto LogMessage SessionLog Summary SummaryMetadata",
    "aioflow.tensors": "nest",
    "aioflow.tensors.codecs": "Saving",
    "aioflow.tensors.dtypes": (
        "DType QUANTIZED_DTYPES as_dtype bfloat16 bool=bool_ bool_ complex128 complex64 double=float64 float16 "
        "float32 float4_e2m1fn float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu "
        "half=float16 int16 int2 int32 int4 int64 int8 qint16=int16 qint32=int32 qint8=int8 quint16=uint16 "
        "quint8=uint8 resource string uint16 uint2 uint32 uint4 uint64 uint8"
    ),
    "aioflow.tensors.shape": "Dimension TensorShape as_shape dimension_at_index dimension_value",
    "aioflow.testing": "test=tensorflow_names",
    "aioflow.tracing": "NodeStats RunMetadata",
    "aioflow.version": (
        "COMPILER_VERSION GIT_VERSION GRAPH_DEF_VERSION GRAPH_DEF_VERSION_MIN_CONSUMER GRAPH_DEF_VERSION_MIN_PRODUCER "
        "VERSION __version__"
    ),
})  # fmt: skip
