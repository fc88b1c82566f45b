"""`SavedModelBuilder` and `simple_save`: saving by TensorFlow's arguments. Both write what `save` writes."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from aioflow.files.filesystem import Path, as_name
from aioflow.graph.graph_keys import GraphKeys
from aioflow.graph.operation import Operation, Tensor
from aioflow.saved_model.manifest import check_asset_name
from aioflow.saved_model.saving import save
from aioflow.saved_model.signature import SERVING_DEFAULT, Signature, check_signatures
from aioflow.saved_model.signature_def_utils import predict_signature_def
from aioflow.session import Session
from aioflow.tensors.recursion import safe_repr


class SavedModelBuilder:
    """Saves a model: `add_meta_graph_and_variables` takes its graph and signatures, and `save` is awaited.

    Args:
        export_dir: the new directory, on this machine, or a URL.

    Examples:
        >>> x = af.placeholder(af.float32, [None], name="x")
        >>> builder = af.saved_model.Builder("models/double")
        >>> signatures = {"serving_default": af.saved_model.predict_signature_def({"x": x}, {"y": 2 * x})}
        >>> builder.add_meta_graph_and_variables(session, [af.saved_model.tag_constants.SERVING], signatures)
        >>> await builder.save()
        'models/double'
    """

    def __init__(self, export_dir: Path) -> None:
        self._directory = as_name(export_dir)
        self._added: tuple[Session, dict[str, Signature], dict[str, Path]] | None = None

    def add_meta_graph_and_variables(
        self,
        sess: Session,
        tags: Iterable[str],
        signature_def_map: Mapping[str, Signature] | None = None,
        assets_list: Iterable[Path] | None = None,
        clear_devices: bool = False,
        init_op: Operation | None = None,
        train_op: Operation | None = None,
        strip_default_attrs: bool = False,
        saver: Any = None,
    ) -> None:
        """Name what `save` saves. The values of variables are those at the time of `save`.

        Args:
            sess: the session of the variables.
            tags: not used: a directory has one graph.
            signature_def_map: the functions of the model by name.
            assets_list: files to put beside, under their own names.
            clear_devices: not used: `load` forgets devices unless it is told to keep them.
            init_op: an operation that fills tables, which `load` does by itself; others are refused.
            train_op: not used: the graph holds what the signatures need.
            strip_default_attrs: not used.
            saver: not used: the variables that the signatures need are saved.

        Raises:
            ValueError: a graph was added before, or there is no signature, or `init_op` does more than to fill tables.
        """
        if self._added is not None:
            raise ValueError(f"{self._directory!r} has a graph already: a saved model has one; save under another path")
        check_signatures(sess.graph, signature_def_map)
        _check_init_op(init_op)
        self._added = sess, dict(signature_def_map or {}), _assets(assets_list or ())

    async def save(self, as_text: bool = False) -> str:
        """Save the model, whole or not at all, as `af.saved_model.save` does. Returns the path of the directory.

        ValueError if nothing was added, or if a text is asked for: there is one format.
        """
        if as_text:
            raise ValueError("a saved model has one format, and as_text=True asks for another")
        if self._added is None:
            raise ValueError(f"nothing was added to {self._directory!r}: call add_meta_graph_and_variables first")
        session, signatures, assets = self._added
        return await save(session, self._directory, signatures, assets=assets)


def _assets(files: Iterable[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for file in files:
        name = check_asset_name(os.path.basename(as_name(file)))
        if name in found:
            raise ValueError(f"two assets are named {name!r}: {as_name(found[name])!r} and {as_name(file)!r}")
        found[name] = file
    return found


def _check_init_op(init_op: Operation | None) -> None:
    """Raise ValueError unless the operation only fills tables."""
    if init_op is None:
        return
    if not isinstance(init_op, Operation):
        raise TypeError(f"init_op is an operation, not {safe_repr(init_op)}")
    filling = init_op.graph.get_collection(GraphKeys.TABLE_INITIALIZERS)
    others = [each.name for each in init_op.control_inputs if each not in filling]
    if init_op not in filling and (others or init_op.type != "no_op"):
        raise ValueError(
            f"{init_op.name!r} does more than to fill tables ({', '.join(others[:3]) or init_op.type}): load gives "
            "variables and tables their content; run other operations after it"
        )


async def simple_save(
    session: Session,
    export_dir: Path,
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Tensor],
    legacy_init_op: Operation | None = None,
) -> str:
    """Save one function of a graph, as the signature `serving_default`. Returns the path of the directory.

    Args:
        session: the session of the variables.
        export_dir: the new directory, on this machine, or a URL.
        inputs: the tensors to feed, by name.
        outputs: the tensors to fetch, by name.
        legacy_init_op: an operation that fills tables, which `load` does by itself; others are refused.

    Examples:
        >>> x = af.placeholder(af.float32, [None], name="x")
        >>> await af.saved_model.simple_save(session, "models/simple", {"x": x}, {"y": 2 * x})
        'models/simple'
    """
    _check_init_op(legacy_init_op)
    return await save(session, export_dir, {SERVING_DEFAULT: predict_signature_def(inputs, outputs)})
