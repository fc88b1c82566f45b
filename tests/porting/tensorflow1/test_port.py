"""The port of programs: its changes, the text that stays, and the notes for a person."""

import ast
import asyncio
import textwrap

import pytest

from aioflow import errors
from aioflow.porting.tensorflow1.port import port
from aioflow.porting.tensorflow1.script import Script

HEAD = "import tensorflow as tf\n"
CHANGES = {
    "a run is awaited, with the feeds under their name": (
        "def f(sess, x):\n    return sess.run(x, feed_dict={x: 1}, run_metadata=m)[0]\n",
        "async def f(sess, x):\n    return (await sess.run(x, feeds={x: 1}, metadata=m))[0]\n",
    ),
    "the default session is opened by async with": (
        "def f():\n    with tf.Session() as s:\n        s.run(x)  # here\n",
        "async def f():\n    async with af.Session() as s:\n        await s.run(x)  # here\n",
    ),
    "a block of both kinds becomes two, and its strings keep their lines": (
        'def f():\n  with tf.Graph().as_default(), tf.Session() as s:\n    s.run("""a\n b""")\n',
        "async def f():\n  with af.Graph().as_default():\n    async with af.Session() as s:\n"
        '      await s.run("""a\n b""")\n',
    ),
    "callers await, through methods and results": (
        "class A:\n    def g(self):\n        return tf.ones([]).eval()\n\n\ndef make():\n    return A()\n\n\n"
        "def f():\n    a = make()\n    return a.g() + 1\n",
        "class A:\n    async def g(self):\n        return await af.ones([]).eval()"
        "\n\n\ndef make():\n    return A()\n\n\n"
        "async def f():\n    a = make()\n    return await a.g() + 1\n",
    ),
    "a constructor that runs becomes a method that is awaited": (
        "class A:\n    def __init__(self, n):\n        self.s = tf.Session()\n        self.s.run(n)  # n\n\n\n"
        "def f():\n    return A(3)\n",
        "class A:\n    async def start(self, n):\n        self.s = af.Session()\n        await self.s.run(n)  # n\n"
        "        return self\n\n\nasync def f():\n    return await A().start(3)\n",
    ),
    "an evaluation in a given session is a run": (
        "def f(s, x):\n    return x.eval(session=s), (x + 1).eval(feed_dict={x: 1}, session=s)\n",
        "async def f(s, x):\n    return await s.run(x), await s.run((x + 1), {x: 1})\n",
    ),
    "the top of a program becomes main": (
        'n = 0\nsess = tf.Session()\nfor _ in range(2):\n    n += sess.run(x)\nprint("done")\n',
        "n = 0\nsess = af.Session()\nasync def main():\n    global n\n"
        "    for _ in range(2):\n        n += await sess.run(x)\n"
        '\n\nasyncio.run(main())\nprint("done")\n',
    ),
    "statements of one line stay together": (
        "sess = tf.Session(); x = 1; print(sess.run(x)); y = x\nz = y\n",
        "async def main():\n    global y\n    sess = af.Session(); x = 1; print(await sess.run(x)); y = x\n\n\n"
        "asyncio.run(main())\nz = y\n",
    ),
    "the guard of a program holds main": (
        'def f(sess):\n    sess.run(n)\n\n\nif __name__ == "__main__":\n    n = 3\n'
        "    f(tf.Session())\n    f(tf.Session())\n",
        'async def f(sess):\n    await sess.run(n)\n\n\nif __name__ == "__main__":\n    n = 3\n    async def main():\n'
        "        await f(af.Session())\n        await f(af.Session())\n\n    asyncio.run(main())\n",
    ),
    "one call at the top is run by asyncio": (
        'def f(s):\n    tf.Session().run(s)\n\n\nif __name__ == "__main__":\n    f(1)\n',
        'async def f(s):\n    await af.Session().run(s)\n\n\nif __name__ == "__main__":\n    asyncio.run(f(1))\n',
    ),
    "a server is entered for the rest of the block": (
        "def f(c):\n    server = tf.train.Server(c, start=True)\n    server.join()\n",
        "async def f(c):\n    async with af.train.Server(c) as server:\n        await server.join()\n",
    ),
    "a replica gets the number of its server": (
        "def f(c, n, opt):\n    server = tf.train.Server(c, 'worker', n)\n"
        "    return tf.train.SyncReplicasOptimizer(opt, 2)\n",
        "async def f(c, n, opt):\n    async with af.train.Server(c, 'worker', n) as server:\n"
        "        return af.train.SyncReplicasOptimizer(opt, 2, task_index=n)\n",
    ),
    "flags become arguments": (
        'flags = tf.app.flags\nFLAGS = flags.FLAGS\nflags.DEFINE_float("rate", 0.1, "The rate.")\n\n\n'
        'def main(_):\n    return FLAGS.rate\n\n\nif __name__ == "__main__":\n    tf.app.run()\n',
        "flags = argparse.ArgumentParser()\nFLAGS = argparse.Namespace()\n"
        'flags.add_argument("--rate", type=float, default=0.1, help="The rate.")\n\n\n'
        'def main(_):\n    return FLAGS.rate\n\n\nif __name__ == "__main__":\n    flags.parse_args(namespace=FLAGS)\n'
        "    main(sys.argv)\n",
    ),
    "generators that await become lists, and generator functions are iterated by async for": (
        "def g(sess):\n    yield sess.run(1)\n\n\ndef f(sess):\n    for x in g(sess):\n"
        "        print(sum(sess.run(y) for y in x))\n",
        "async def g(sess):\n    yield await sess.run(1)\n\n\nasync def f(sess):\n    async for x in g(sess):\n"
        "        print(sum([await sess.run(y) for y in x]))\n",
    ),
    "configurations and options": (
        "c = tf.ConfigProto(allow_soft_placement=True, gpu_options=g)\no = tf.RunOptions(timeout_in_ms=500)\n",
        "c = af.Config(allow_soft_placement=True)\no = af.RunOptions(timeout=(500) / 1000)\n",
    ),
    "only what is TensorFlow's is awaited": (
        "def f(job, saver, text):\n    job.run()\n    saver.save(tf.get_default_session(), text.join([]))\n",
        "async def f(job, saver, text):\n    job.run()\n"
        "    await saver.save(af.get_default_session(), text.join([]))\n",
    ),
    "absl's app runs a coroutine function": (
        "from absl import app\n\n\ndef main(argv):\n    tf.Session().run(argv)\n\n\napp.run(main)\n",
        "from absl import app\n\n\nasync def main(argv):\n    await af.Session().run(argv)\n\n\n"
        "app.run(lambda argv: asyncio.run(main(argv)))\n",
    ),
    "a coroutine function sleeps without stopping others": (
        "import time\n\n\ndef f(sess):\n    time.sleep(1)\n    sess.run(x)\n",
        "import time\n\n\nasync def f(sess):\n    await asyncio.sleep(1)\n    await sess.run(x)\n",
    ),
}
NOTES = {
    "a lambda": ("def f(sess):\n    return lambda: sess.run(x)\n", "line 3: a lambda cannot await"),
    "a missing name": ("y = tf.layers.dense(x, 3)\n", "line 2: tf.layers.dense is missing"),
    "a property": (
        "class A:\n    @property\n    def p(self):\n        return x.eval()\n",
        "line 5: this waits: see that @property",
    ),
    "a callback": (
        "def f(sess):\n    sess.run(x)\n\n\nt = Thread(target=f)\n",
        "line 6: f is a coroutine function now",
    ),
    "a generator": ("def f(sess):\n    yield from sess.run(x)\n", "line 3: an async generator has no `yield from`"),
    "a replica": ("tf.train.SyncReplicasOptimizer(opt, 2)\n", "line 2: give each replica its own number"),
    "an iterator": (
        "d = tf.data.Dataset.range(3)\nx = d.make_one_shot_iterator().get_next()\n",
        "line 3: make_one_shot_iterator is missing: iterate outside the graph",
    ),
    "a setting": ("c = tf.ConfigProto()\nc.allow_soft_placement = True\n", "line 3: a Config does not change"),
    "a constructor of a base": (
        "class A:\n    def __init__(self):\n        x.eval()\n\n\nclass B(A):\n    pass\n",
        "line 4: a constructor cannot await",
    ),
    "an argument": ("y = tf.zeros([2], layout=z)\n", "line 2: af.zeros does not take layout"),
}


def ported(text):
    return port(Script(text))


def body(text):
    """A program without its imports."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("import ") or "time" in line)


@pytest.mark.whole
def test_programs_change_where_they_wait_and_nowhere_else():
    for what, (before, after) in CHANGES.items():
        found = ported(HEAD + before)
        assert body(found.text) == after, what
        assert found.notes == [], what
        assert ported(found.text).text == found.text, what
        ast.parse(found.text)


def test_places_that_need_a_person_are_marked():
    for what, (before, note) in NOTES.items():
        found = ported(HEAD + before)
        ((line, text),) = {(each.line, each.text) for each in found.notes}
        assert f"line {line}: {text}".startswith(note), what
        assert f"# aioflow: {text}\n" in found.text, what
        ast.parse(found.text)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_all_other_characters_stay(end):
    text = "# -*- coding: utf-8 -*-\n\n\nx = tf .ones( [ 1,2 ] )  # ä π\n\ty = 'é' ; z = [ x ,\n   tf.zeros([1])]\n"
    text = ("import tensorflow.compat.v1 as tf  # TF\n" + text.replace("\ty", "y")).replace("\n", end)
    changed = ported(text).text
    assert changed == text.replace("tensorflow.compat.v1 as tf", "aioflow as af").replace("tf ", "af ").replace(
        "tf.", "af."
    )
    foreign = "import numpy as np\nsess.run( x )\n"
    assert ported(foreign).text == foreign


def test_imports_of_every_form_become_one():
    forms = [
        "import tensorflow",
        "import tensorflow.compat.v1 as tf",
        "from tensorflow.compat import v1 as tf",
        "from tensorflow import nn",
        "import os, tensorflow as tf",
    ]
    used = ["tensorflow.nn.relu", "tf.nn.relu", "tf.nn.relu", "nn.relu", "tf.compat.v1.nn.relu"]
    for form, name in zip(forms, used, strict=True):
        head = form.partition("tensorflow")[0] if "os" in form else "import "
        assert ported(f"{form}\n{name}(x)\n").text == f"{head}aioflow as af\naf.nn.relu(x)\n"
    twice = ported("import tensorflow as tf\nfrom tensorflow.contrib import rnn\nrnn.BasicLSTMCell(3)\n")
    assert twice.text == "import aioflow as af\naf.nn.rnn_cell.BasicLSTMCell(3)\n"
    assert ported("import tensorflow as tf\naf = tf.ones([])\n").text == "import aioflow\naf = aioflow.ones([])\n"


def test_imports_in_functions_are_enough():
    found = ported('"""A program."""\n\n\ndef f():\n    import tensorflow as tf\n    tf.Session().run(1)\n\n\nf()\n')
    assert found.text == (
        '"""A program."""\n\n\nimport asyncio\nasync def f():\n    import aioflow as af\n'
        "    await af.Session().run(1)\n"
        "\n\nasyncio.run(f())\n"
    )


def test_names_are_listed_with_state_and_lines():
    found = ported(HEAD + "a = tf.ones([])\nb = tf.layers.dense(a)\nc = [tf.exp(a), tf.exp(b)]\ntf.ConfigProto()\n")
    states = {state.path: (state.state, list(lines)) for state, lines in found.names}
    assert states["exp"] == ("same", [4])
    assert states["ConfigProto"] == ("differs", [5])
    assert states["layers.dense"] == ("missing", [3])


def test_a_text_that_python_cannot_parse_is_refused_with_its_line():
    with pytest.raises(errors.InvalidArgumentError, match=r"old\.py:2: Python cannot parse .*2to3"):
        Script('import tensorflow as tf\nprint "loss", loss\n', "old.py")


def test_a_ported_program_runs():
    text = """
        import tensorflow as tf
        results = []
        x = tf.placeholder(tf.float32, [])
        class Adder:
            def __init__(self, sess):
                self.sess = sess
                self.total = tf.Variable(0.0)
                self.sess.run(tf.global_variables_initializer())
            def add(self, value):
                return self.sess.run(self.total.assign_add(x), feed_dict={x: value})
        def main(_):
            with tf.Graph().as_default(), tf.Session() as sess:
                global x
                x = tf.placeholder(tf.float32, [])
                adder = Adder(sess)
                results.extend(adder.add(value) for value in (1.0, 2.0))
                results.append(max(adder.add(value) for value in (3.0, 4.0)))
    """
    space = {}
    exec(compile(ported(textwrap.dedent(text)).text, "ported.py", "exec"), space)
    asyncio.run(space["main"](None))
    assert space["results"] == [1, 3, 10]
