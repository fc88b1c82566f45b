"""Loops made by hand of the primitives of control flow."""

import aioflow as af


def loop(cond, body, *inits, name="loop", parallel_iterations=10):
    """What the loop's variables are when `cond` of them is false."""
    graph = af.get_default_graph()
    with graph.control_dependencies(None):
        firsts = [af.enter(init, name, parallel_iterations=parallel_iterations) for init in inits]
        variables = [af.merge([first, first])[0] for first in firsts]
        going = af.loop_cond(cond(*variables))
        ways = [af.switch(variable, going) for variable in variables]
        with graph.control_dependencies([af.identity(ways[0][1])]):
            results = body(*[yes for _, yes in ways])
        for variable, result in zip(variables, results, strict=True):
            variable.op.update_input(1, af.next_iteration(result))
        return [af.exit(no) for no, _ in ways]


def constant_in(value, name="loop"):
    """The value in every iteration of a loop."""
    with af.get_default_graph().control_dependencies(None):
        return af.enter(value, name, is_constant=True)
