"""`af.data.experimental`: functions for `Dataset.apply`, further datasets, and what TensorFlow has under this name."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.data.checks": "AUTOTUNE INFINITE_CARDINALITY UNKNOWN_CARDINALITY",
    "aioflow.data.csv_batches": "make_csv_dataset",
    "aioflow.data.example_datasets": "make_batched_features_dataset parse_example_dataset",
    "aioflow.data.file_datasets": "CsvDataset",
    "aioflow.data.graph_iterator": "get_next_as_optional",
    "aioflow.data.made_datasets": (
        "Counter RandomDataset TFRecordWriter cardinality choose_from_datasets from_list get_single_element "
        "sample_from_datasets"
    ),
    "aioflow.data.optional": "Optional OptionalStructure=OptionalSpec",
    "aioflow.data.options": "AutotuneAlgorithm AutotuneOptions OptimizationOptions ThreadingOptions",
    "aioflow.data.reducing": "Reducer",
    "aioflow.data.sql_dataset": "SqlDataset",
    "aioflow.data.structures": (
        "DatasetStructure=DatasetSpec RaggedTensorStructure SparseTensorStructure TensorArrayStructure "
        "TensorStructure get_structure"
    ),
    "aioflow.data.tables": "DatasetInitializer index_table_from_dataset table_from_dataset",
    "aioflow.data.transformations": (
        "assert_cardinality bucket_by_sequence_length copy_to_device dense_to_ragged_batch dense_to_sparse_batch "
        "enumerate_dataset group_by_reducer group_by_window ignore_errors map_and_batch "
        "map_and_batch_with_legacy_function=map_and_batch pad_to_cardinality parallel_interleave prefetch_to_device "
        "rejection_resample scan shuffle_and_repeat snapshot take_while unbatch unique"
    ),
    "aioflow.library.type_specs": "Structure=TypeSpec",
})  # fmt: skip
