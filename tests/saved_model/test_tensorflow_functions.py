"""Saving and loading by TensorFlow's functions: they write and read the one directory that aioflow has."""

import numpy as np
import pytest

import aioflow as af
from aioflow import saved_model


def graph_of_a_line():
    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [None], name="x")
        y = x * af.Variable(3.0, name="slope")
        init = af.global_variables_initializer()
    return graph, x, y, init


async def test_what_a_builder_saves_is_loaded_by_either_loader(tmp_path):
    graph, x, y, init = graph_of_a_line()
    (tmp_path / "words.txt").write_text("red")
    path = str(tmp_path / "built")
    async with af.Session(graph=graph) as session:
        await session.run(init)
        builder = saved_model.Builder(path)
        assert saved_model.builder.SavedModelBuilder is saved_model.Builder
        with pytest.raises(ValueError, match="call add_meta_graph_and_variables first"):
            await builder.save()
        signatures = {"serving_default": saved_model.predict_signature_def({"x": x}, {"y": y})}
        tags = [saved_model.tag_constants.SERVING]
        builder.add_meta_graph_and_variables(session, tags, signatures, [tmp_path / "words.txt"])
        with pytest.raises(ValueError, match="has a graph already"):
            builder.add_meta_graph_and_variables(session, tags, signatures)
        with pytest.raises(ValueError, match="one format"):
            await builder.save(as_text=True)
        assert not saved_model.contains_saved_model(path)
        assert await builder.save() == path
        assert saved_model.contains_saved_model(path)
        simple = await saved_model.simple_save(session, tmp_path / "simple", {"x": x}, {"y": y})
    async with af.Session(graph=af.Graph()) as session:
        model = await saved_model.loader.load(session, tags, path, import_scope="here")
        other = await saved_model.load_v2(simple)
        assert (tmp_path / "built" / saved_model.ASSETS_DIRECTORY / "words.txt").read_text() == "red"
        assert model.assets["words.txt"] == f"{path}/{saved_model.constants.ASSETS_DIRECTORY}/words.txt"
        for found in (model.signatures["serving_default"], other.signatures["serving_default"]):
            assert (await session.run(found.outputs["y"], {found.inputs["x"]: [2.0]})).tolist() == [6.0]
        assert model.signatures["serving_default"].inputs["x"].op.name.startswith("here/")
        with pytest.raises(TypeError, match="allow_empty"):
            await saved_model.loader.load(session, tags, path, allow_empty=True)
        with pytest.raises(TypeError, match="load_v2 takes no options, as 3"):
            await saved_model.load_v2(path, options=3)


async def test_an_initializer_that_does_more_than_fill_tables_is_refused(tmp_path):
    graph, x, y, init = graph_of_a_line()
    with graph.as_default():
        af.lookup.StaticHashTable(af.lookup.KeyValueTensorInitializer(["red"], [1]), -1)
        tables, everything = af.tables_initializer(), saved_model.main_op.main_op()
    async with af.Session(graph=graph) as session:
        await session.run(everything)
        assert (await session.run(y, {x: np.float32([1.0])})).tolist() == [3.0]
        with pytest.raises(ValueError, match="does more than to fill tables"):
            await saved_model.simple_save(session, tmp_path / "m", {"x": x}, {"y": y}, legacy_init_op=everything)
        with pytest.raises(ValueError, match="does more than to fill tables"):
            await saved_model.simple_save(session, tmp_path / "m", {"x": x}, {"y": y}, legacy_init_op=init)
        await saved_model.simple_save(session, tmp_path / "m", {"x": x}, {"y": y}, legacy_init_op=tables)
    assert saved_model.maybe_saved_model_directory(tmp_path / "m")


def test_two_assets_of_one_name_are_refused(tmp_path):
    graph, x, y, _ = graph_of_a_line()
    signatures = {"f": saved_model.predict_signature_def({"x": x}, {"y": y})}
    with pytest.raises(ValueError, match=r"two assets are named 'a\.txt'"):
        saved_model.Builder(tmp_path / "m").add_meta_graph_and_variables(
            af.Session(graph=graph), [], signatures, ["one/a.txt", "two/a.txt"]
        )


def test_a_description_of_a_tensor_has_tensorflows_bytes_and_leads_back_to_the_tensor():
    graph, x, y, _ = graph_of_a_line()
    info = saved_model.build_tensor_info(x)
    dimension = b"\x12\x0b\x08" + b"\xff" * 9 + b"\x01"
    assert info.SerializeToString() == b"\n\x03x:0\x10\x01\x1a\x0d" + dimension
    assert saved_model.utils.get_tensor_from_tensor_info(info, graph) is x
    with graph.as_default():
        made = saved_model.build_signature_def({"x": info}, {"y": saved_model.build_tensor_info(y)})
        assert made == saved_model.predict_signature_def({"x": x}, {"y": y})
        assert saved_model.is_valid_signature(made)
        assert not saved_model.is_valid_signature(saved_model.predict_signature_def({}, {"y": y}))
        unknown = saved_model.build_tensor_info(af.placeholder(af.int32))
        assert unknown.tensor_shape.unknown_rank
        assert (unknown.dtype, [*unknown.tensor_shape.dim]) == (3, [])
    with pytest.raises(ValueError, match="has no name"):
        saved_model.get_tensor_from_tensor_info(af.TensorInfo(), graph)
    with pytest.raises(KeyError, match="there/x"):
        saved_model.get_tensor_from_tensor_info(info, graph, import_scope="there")
    with pytest.raises(TypeError, match="describes a tensor"):
        saved_model.build_tensor_info(3)
