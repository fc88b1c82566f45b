"""`af.Module` finds the variables and modules in its attributes, and names operations by its scope."""

import pytest

import aioflow as af


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


class Part(af.Module):
    def __init__(self, name=None, inner=()):
        super().__init__(name)
        with self.name_scope:
            self.weight = af.Variable(2.0, name="weight")
        self.bias = af.Variable(1.0, name="bias", trainable=False)
        self.all = {"z": self.weight, "a": [af.Variable(3.0, name="extra"), ("text", 7)]}
        self.inner = list(inner)

    @af.Module.with_name_scope
    def __call__(self, x):
        return af.add(x, self.weight, name="sum")


def names(variables):
    return [variable.op.name for variable in variables]


async def test_variables_come_in_the_order_of_attributes_and_then_of_modules():
    first = Part("first")
    second = Part(inner=[first, first])
    assert names(first.variables) == ["extra", "first/weight", "bias"]
    assert names(second.variables) == ["extra_1", "part/weight", "bias_1", "extra", "first/weight", "bias"]
    assert names(second.trainable_variables) == ["extra_1", "part/weight", "extra", "first/weight"]
    assert names(second.non_trainable_variables) == ["bias_1", "bias"]
    assert (first.submodules, second.submodules) == ((), (first,))
    async with af.Session() as session:
        await session.run(af.variables_initializer(second.variables))
        assert await session.run(first(1.0)) == 3.0


def test_methods_and_blocks_build_in_the_scope_of_the_module():
    part, again = Part(), Part()
    assert (part.name, again.name) == ("part", "part")
    assert (part.name_scope.name, again.name_scope.name) == ("part/", "part_1/")
    assert [part(1.0).op.name, part(1.0).op.name, again(1.0).op.name] == ["part/sum", "part/sum_1", "part_1/sum"]
    with af.name_scope("outer"):
        inner = Part("inner")
    with inner.name_scope as scope, part.name_scope, inner.name_scope:
        assert scope == "outer/inner/"
        assert af.constant(1, name="x").op.name == "outer/inner/x"


def test_modules_that_hold_each_other_and_layers_are_found():
    one, two = af.Module("one"), af.Module("two")
    one.other, two.other = two, one
    two.layer = af.layers.Dense(2, name="dense")
    two.layer(af.zeros([1, 3]))
    two.items = [two.layer]
    two.items.append(two.items)
    two.parts = af.get_variable("split", [4], partitioner=af.fixed_size_partitioner(2))
    assert one.submodules == (two,)
    assert len(two.variables) == len(one.variables) == 4


@pytest.mark.parametrize(("made", "name"), [("HTTPServer", "http_server"), ("ABc", "a_bc"), ("Conv2D", "conv2_d")])
def test_the_name_of_a_class_becomes_that_of_the_module(made, name):
    assert type(made, (af.Module,), {})().name == name


@pytest.mark.parametrize("name", ["", "a-b", "1x", "a/b", 3])
def test_a_name_that_is_no_identifier_is_refused(name):
    with pytest.raises(ValueError, match="is an identifier of Python, not"):
        af.Module(name=name)
