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

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.summary.description": "get_summary_description",
    "aioflow.summary.functions": (
        "all_v2_summary_ops audio histogram image merge merge_all scalar tensor_summary text"
    ),
    "aioflow.summary.messages": "Event SessionLog Summary SummaryDescription TaggedRunMetadata",
    "aioflow.summary.writer": "FileWriter FileWriterCache",
})  # fmt: skip
