"""Operations that make summaries, and writers of event files for TensorBoard.

    with graph.as_default():
        af.summary.scalar("loss", loss)
        af.summary.histogram("weights", weights)
        merged = af.summary.merge_all()

    async with af.Session(graph=graph) as session, af.summary.FileWriter("logs", graph) as writer:
        text, _ = await session.run([merged, train])
        writer.add_summary(text, step)

`tensorboard --logdir logs` shows them. Only the writers need TensorBoard: `pip install aioflow-engine[tensorboard]`.
"""

# Made by `make stubs`.

import builtins
from collections.abc import Sequence
from typing import Any

from aioflow.graph.convert import NumberLike, TensorLike, TextLike
from aioflow.graph.operation import Operation, Tensor
from aioflow.tensors.dtypes import DTypeLike, ShapeLike

from aioflow.summary.description import get_summary_description as get_summary_description
from aioflow.summary.functions import all_v2_summary_ops as all_v2_summary_ops
from aioflow.summary.functions import audio as audio
from aioflow.summary.functions import histogram as histogram
from aioflow.summary.functions import image as image
from aioflow.summary.functions import merge as merge
from aioflow.summary.functions import merge_all as merge_all
from aioflow.summary.functions import scalar as scalar
from aioflow.summary.functions import tensor_summary as tensor_summary
from aioflow.summary.functions import text as text
from aioflow.summary.messages import Event as Event
from aioflow.summary.messages import SessionLog as SessionLog
from aioflow.summary.messages import Summary as Summary
from aioflow.summary.messages import SummaryDescription as SummaryDescription
from aioflow.summary.messages import TaggedRunMetadata as TaggedRunMetadata
from aioflow.summary.writer import FileWriter as FileWriter
from aioflow.summary.writer import FileWriterCache as FileWriterCache

__all__ = ["Event", "FileWriter", "FileWriterCache", "SessionLog", "Summary", "SummaryDescription", "TaggedRunMetadata",
    "all_v2_summary_ops", "audio", "get_summary_description", "histogram", "image", "merge", "merge_all", "scalar",
    "tensor_summary", "text"]
