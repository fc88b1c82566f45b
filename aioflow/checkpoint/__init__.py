"""Checkpoints: directories of safetensors files, an index in Hugging Face's form, and a manifest that is written last.

    model.ckpt-1234/
        model-00001-of-00002.safetensors
        model-00002-of-00002.safetensors
        model.safetensors.index.json
        manifest.json

A directory without a valid manifest is no checkpoint. Input: arrays and paths. Output: files and arrays. All functions
block, so callers run them on threads. This folder never uses a graph, a session or an event loop.
"""

from aioflow.checkpoint.directory import (
    damaged_checkpoints,
    delete_checkpoint,
    last_checkpoints,
    latest_checkpoint,
    list_checkpoints,
    sweep,
    write_pointer,
)
from aioflow.checkpoint.draft import Draft, Piece
from aioflow.checkpoint.manifest import read_json, seal, unseal
from aioflow.checkpoint.plain_file import export_safetensors
from aioflow.checkpoint.reading import Checkpoint, StoredTensor, differences, import_safetensors
from aioflow.checkpoint.records import ShardRecord, field
from aioflow.checkpoint.retention import Retention, series
from aioflow.checkpoint.storage import Storage, locate, resolve_path

__all__ = [
    "Checkpoint", "Draft", "Piece", "Retention", "ShardRecord", "Storage", "StoredTensor", "damaged_checkpoints",
    "delete_checkpoint", "differences", "export_safetensors", "field", "import_safetensors", "last_checkpoints",
    "latest_checkpoint", "list_checkpoints", "locate", "read_json", "resolve_path", "seal", "series", "sweep", "unseal",
    "write_pointer",
]  # fmt: skip
