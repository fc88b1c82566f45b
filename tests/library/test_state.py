"""Lists of variables by older names, and templates: library/state.py."""

import pytest

import aioflow as af
from aioflow.library import state, templates


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def test_older_names_are_those_of_today():
    for old, new in (
        ("all_variables", "global_variables"),
        ("initialize_variables", "variables_initializer"),
        ("initialize_all_variables", "global_variables_initializer"),
        ("initialize_local_variables", "local_variables_initializer"),
    ):
        assert getattr(state, old) is getattr(state, new)


def test_the_variables_of_layers_are_listed():
    w = af.Variable(1.0, collections=[af.GraphKeys.MODEL_VARIABLES], name="layer/w")
    assert (state.model_variables(), state.model_variables("layer"), state.model_variables("x")) == ([w], [w], [])


async def test_variables_can_be_required_to_have_values(graph):
    v, w = af.Variable(1.0, name="v"), af.Variable(2.0, name="w")
    both, one = state.assert_variables_initialized(), state.assert_variables_initialized([v])
    none = state.assert_variables_initialized([])
    async with af.Session(graph=graph) as session:
        await session.run(v.initializer)
        assert await session.run([one, none]) == [None, None]
        with pytest.raises(af.errors.FailedPreconditionError, match="'w'"):
            await session.run(both)
        await session.run(w.initializer)
        assert await session.run(both) is None


def scaled(x, by=2.0):
    w = af.get_variable("w", [], initializer=af.ones_initializer())
    return x * w * by


def test_a_template_shares_its_variables_among_its_calls():
    first, second = (templates.make_template("scale", scaled, by=3.0) for _ in range(2))
    assert (first.variables, first.variable_scope, first.variable_scope_name) == ([], None, None)
    for template in (first, second, first):
        assert template(1.0).shape == []
    names = [[variable.op.name for variable in template.variables] for template in (first, second)]
    assert names == [["scale/w"], ["scale_1/w"]]
    assert first.trainable_variables == first.global_variables == first.variables == [af.global_variables()[0]]
    assert (first.name, first.local_variables, first.variable_scope.name) == ("scale", [], "scale")


def test_a_templates_scope_can_be_taken_before_its_first_call():
    first = templates.make_template("scale", scaled, create_scope_now_=True)
    second = templates.make_template("scale", scaled)
    third = templates.make_template("scale", scaled, unique_name_="mine")
    for template in (second, first, third, first):
        template(1.0)
    assert [t.variable_scope_name for t in (first, second, third)] == ["scale", "scale_1", "mine"]
    with pytest.raises(ValueError, match="'mine/w' exists already"):
        templates.make_template("other", scaled, unique_name_="mine")(1.0)


def test_a_template_uses_its_getter():
    def getter(true, name, *args, **options):
        return true(name + "_got", *args, **options)

    template = templates.make_template("scale", scaled, custom_getter_=getter)
    template(1.0)
    assert [variable.op.name for variable in template.variables] == ["scale/w_got"]


def test_a_later_call_makes_no_variable():
    template = templates.make_template("scale", lambda x: x * af.Variable(1.0))
    template(1.0)
    with pytest.raises(ValueError, match=r"template 'scale' made \['scale_1/Variable'\] in a later call"):
        template(1.0)
