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
    delete_checkpoint,
    last_checkpoints,
    latest_checkpoint,
    list_checkpoints,
    sweep,
    write_pointer,
)
from aioflow.checkpoint.draft import Draft, Piece
from aioflow.checkpoint.reading import Checkpoint, StoredTensor, differences, import_safetensors
from aioflow.checkpoint.records import ShardRecord
from aioflow.checkpoint.retention import Retention, series
from aioflow.checkpoint.storage import resolve_path

__all__ = [
    "Checkpoint", "Draft", "Piece", "Retention", "ShardRecord", "StoredTensor", "delete_checkpoint", "differences",
    "import_safetensors", "last_checkpoints", "latest_checkpoint", "list_checkpoints", "resolve_path", "series",
    "sweep", "write_pointer",
]  # fmt: skip
