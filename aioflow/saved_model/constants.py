"""`af.saved_model.constants`: the names of folders and collections, and of the files of TensorFlow's own saved models.

aioflow reads and writes its own directories, whose folders have the same names; see `manifest`.
"""

from typing import Final

from aioflow.lazy import Face
from aioflow.saved_model.manifest import ASSETS, VARIABLES, VERSION

ASSETS_DIRECTORY: Final = ASSETS
ASSETS_KEY: Final = "saved_model_assets"
DEBUG_DIRECTORY: Final = "debug"
DEBUG_INFO_FILENAME_PB: Final = "saved_model_debug_info.pb"
LEGACY_INIT_OP_KEY: Final = "legacy_init_op"
MAIN_OP_KEY: Final = "saved_model_main_op"
SAVED_MODEL_FILENAME_PB: Final = "saved_model.pb"
SAVED_MODEL_FILENAME_PBTXT: Final = "saved_model.pbtxt"
SAVED_MODEL_SCHEMA_VERSION: Final = VERSION
VARIABLES_DIRECTORY: Final = VARIABLES
VARIABLES_FILENAME: Final = "variables"
Face(__name__, {
    __name__: (
        "ASSETS_DIRECTORY ASSETS_KEY DEBUG_DIRECTORY DEBUG_INFO_FILENAME_PB LEGACY_INIT_OP_KEY MAIN_OP_KEY "
        "SAVED_MODEL_FILENAME_PB SAVED_MODEL_FILENAME_PBTXT SAVED_MODEL_SCHEMA_VERSION VARIABLES_DIRECTORY "
        "VARIABLES_FILENAME"
    )
})  # fmt: skip
