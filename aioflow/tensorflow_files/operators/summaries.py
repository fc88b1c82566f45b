"""Summaries. Their tags must be known before a run."""

from aioflow.graph.operation import Tensor
from aioflow.kernels.data import summary
from aioflow.tensorflow_files.call import Call, known
from aioflow.tensorflow_files.registry import operator


def _tag(tensor: Tensor) -> str:
    found = known(tensor, "tag").reshape(-1).tolist()
    if len(found) != 1 or not isinstance(found[0], bytes):
        raise ValueError(f"a summary has one tag, not {found[:3]}")
    return found[0].decode()


@operator("ScalarSummary")
def _(call: Call, tags: Tensor, values: Tensor) -> Tensor:
    return summary.scalar_summary(values, _tag(tags), name=call.name)


@operator("HistogramSummary")
def _(call: Call, tag: Tensor, values: Tensor) -> Tensor:
    return summary.histogram_summary(values, _tag(tag), name=call.name)


@operator("ImageSummary")
def _(call: Call, tag: Tensor, images: Tensor) -> Tensor:
    return summary.image_summary(images, _tag(tag), call.integer("max_images", 3), name=call.name)


@operator("TensorSummaryV2")
def _(call: Call, tag: Tensor, tensor: Tensor, metadata: Tensor) -> Tensor:
    found: bytes = known(metadata, "metadata").reshape(()).item()
    return summary.tensor_summary(tensor, _tag(tag), found, name=call.name)


@operator("MergeSummary")
def _(call: Call, *inputs: Tensor) -> Tensor:
    return summary.merge_summary(inputs, name=call.name)
