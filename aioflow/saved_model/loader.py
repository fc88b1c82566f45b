"""`af.saved_model.loader`: loading by TensorFlow's arguments."""

from collections.abc import Iterable
from typing import Any

from aioflow.files.filesystem import Path
from aioflow.graph.default_session import current_session
from aioflow.lazy import Face
from aioflow.saved_model.loading import LoadedModel
from aioflow.saved_model.loading import load as load_directory
from aioflow.saved_model.reading import is_complete
from aioflow.session import Session
from aioflow.tensors.recursion import safe_repr


async def load(
    sess: Session, tags: Iterable[str], export_dir: Path, import_scope: str | None = None, **saver_kwargs: Any
) -> LoadedModel:
    """Add a saved model to the graph of a session, as `af.saved_model.load` does.

    Args:
        sess: the session, whose graph gets the operations.
        tags: not used: a directory has one graph.
        export_dir: the directory, or a URL.
        import_scope: the name scope of the operations.
        saver_kwargs: none are taken.

    Examples:
        >>> signature = af.saved_model.Signature(inputs={}, outputs={"y": af.identity(7)})
        >>> path = await af.saved_model.save(session, "models/seven", {"serving_default": signature})
        >>> async with af.Session(graph=af.Graph()) as other:
        ...     model = await af.saved_model.loader.load(other, ["serve"], path)
        ...     print(await other.run(model.signatures["serving_default"].outputs["y"]))
        7
    """
    if saver_kwargs:
        raise TypeError(f"load() has no Saver whose options could be given, as {', '.join(saver_kwargs)}")
    return await load_directory(export_dir, sess, name=import_scope)


async def load_v2(export_dir: Path, tags: Iterable[str] | str | None = None, options: None = None) -> LoadedModel:
    """Add a saved model to the graph of the default session, as `af.saved_model.load` does.

    Args:
        export_dir: the directory, or a URL.
        tags: not used: a directory has one graph.
        options: none are taken.

    Raises:
        ValueError: there is no default session.

    Examples:
        >>> signature = af.saved_model.Signature(inputs={}, outputs={"y": af.identity(7)})
        >>> path = await af.saved_model.save(session, "models/seven", {"serving_default": signature})
        >>> async with af.Session(graph=af.Graph()) as other:
        ...     model = await af.saved_model.load_v2(path)
        ...     print(await other.run(model.signatures["serving_default"].outputs["y"]))
        7
    """
    if options is not None:
        raise TypeError(f"load_v2 takes no options, as {safe_repr(options)}: see af.saved_model.load")
    session: Any = current_session()
    return await load_directory(export_dir, session)


def maybe_saved_model_directory(export_dir: Path) -> bool:
    """Whether a directory holds a whole saved model, or meta graph. Blocks: call it on a thread where a loop runs.

    Examples:
        >>> af.saved_model.contains_saved_model("models/none")
        False
    """
    return is_complete(export_dir)


Face(__name__, {__name__: "load maybe_saved_model_directory"})
