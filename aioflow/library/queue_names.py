"""`af.queue`: the queues, under the names of TensorFlow's `queue`."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.library.queues": "FIFOQueue PaddingFIFOQueue PriorityQueue QueueBase RandomShuffleQueue",
})  # fmt: skip
