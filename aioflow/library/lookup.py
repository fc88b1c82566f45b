"""`af.lookup`: lookup tables, under the names of TensorFlow's `lookup` and of its older `contrib.lookup`."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.library": "experimental=lookup_experimental",
    "aioflow.library.index_tables": (
        "index_table_from_file index_table_from_tensor index_to_string_table_from_file "
        "index_to_string_table_from_tensor"
    ),
    "aioflow.library.lookup_tables": "HashTable=StaticHashTable LookupInterface StaticHashTable",
    "aioflow.library.mutable_tables": "MutableDenseHashTable=DenseHashTable MutableHashTable",
    "aioflow.library.table_initializers": (
        "KeyValueTensorInitializer TableInitializerBase TextFileIdTableInitializer TextFileIndex TextFileInitializer "
        "TextFileStringTableInitializer"
    ),
    "aioflow.library.vocabulary_tables": (
        "FastHashSpec HasherSpec IdTableWithHashBuckets StaticVocabularyTable StrongHashSpec"
    ),
})  # fmt: skip
