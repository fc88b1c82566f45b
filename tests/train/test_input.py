"""Producers and batches: what comes out of them, in which order, how often, and how they end."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from aioflow import errors, train
from aioflow.library.readers import TextLineReader, WholeFileReader
from aioflow.testing import no_pending_tasks


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def results(fetches, most=1000):
    """What fetching gives, time after time, until the input ends. All queue runners run, a while before the first."""
    graph = af.get_default_graph()
    async with af.Session(graph=graph) as session:
        await session.run(af.local_variables_initializer())
        step, found = session.make_callable(fetches), []
        with no_pending_tasks():
            async with train.Coordinator() as coord:
                train.start_queue_runners(session, coord)
                await asyncio.sleep(1)
                while len(found) < most:
                    found.append(await step())
        return found


async def rows(tensor, most=1000):
    """The same of one tensor, as a list."""
    return [value.item() if isinstance(value, np.generic) else value for value in await results(tensor, most)]


def lists(batches):
    return [np.asarray(batch).tolist() for batch in batches]


def numbers(count, epochs=1):
    """A tensor that is 0, 1, 2 ..., and then the end of the input."""
    return train.range_input_producer(count, num_epochs=epochs, shuffle=False).dequeue()


# Producers


async def test_a_producer_gives_its_rows_so_many_times(graph):
    queue = train.input_producer([[1, 2], [3, 4]], num_epochs=3, shuffle=False)
    assert lists(await results(queue.dequeue())) == [[1, 2], [3, 4]] * 3


async def test_a_producer_without_epochs_never_ends(graph):
    queue = train.string_input_producer(["a", "b"], shuffle=False, capacity=1)
    assert await rows(queue.dequeue(), most=7) == [b"a", b"b"] * 3 + [b"a"]
    assert af.local_variables() == []


async def test_shuffled_rows_come_in_another_order_each_time_but_all_of_them_by_seed(graph):
    queue = train.range_input_producer(20, num_epochs=3, seed=5)
    first, again = await rows(queue.dequeue()), await rows(queue.dequeue())
    assert first == again
    epochs = [first[:20], first[20:40], first[40:]]
    assert all(sorted(epoch) == list(range(20)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


async def test_slices_are_the_same_rows_of_all_tensors(graph):
    whole = np.arange(12).reshape(6, 2)
    row, label = train.slice_input_producer([whole, [f"{i}" for i in range(6)]], num_epochs=1, seed=1)
    assert row.shape == [2]
    found = await results([row, label])
    assert sorted(int(label) for _, label in found) == list(range(6))
    assert all(row.tolist() == whole[int(label)].tolist() for row, label in found)


async def test_a_tensor_is_limited_to_so_many_evaluations(graph):
    limited = train.limit_epochs(af.constant(7), num_epochs=2)
    assert [variable.op.name for variable in af.local_variables()] == ["limit_epochs/epochs"]
    assert af.trainable_variables() == af.global_variables() == []
    async with af.Session(graph=graph) as session:
        with pytest.raises(errors.FailedPreconditionError, match="is not initialized"):
            await session.run(limited)
        await session.run(af.local_variables_initializer())
        assert [await session.run(limited) for _ in range(2)] == [7, 7]
        with pytest.raises(errors.OutOfRangeError):
            await session.run(limited)
    assert train.limit_epochs(limited) is limited


async def test_epochs_whose_counter_was_not_initialized_are_told_of(graph):
    queue = train.string_input_producer(["a"], num_epochs=1)
    async with af.Session(graph=graph) as session:

        async def body():
            async with train.Coordinator() as coord:
                train.start_queue_runners(session, coord)
                await session.run(queue.dequeue())

        with pytest.raises(errors.FailedPreconditionError, match="epochs"):
            await body()


async def test_a_producer_of_no_strings_is_an_error_when_it_is_built_or_run(graph):
    with pytest.raises(ValueError, match="at least one string"):
        train.string_input_producer([])
    names = af.placeholder_with_default(np.array([], object), [None])
    queue = train.string_input_producer(names)
    with pytest.raises(errors.InvalidArgumentError, match="at least one string"):
        await results(queue.dequeue())


def test_what_cannot_be_produced_is_refused(graph):
    for epochs in (0, -1, True, 1.5):
        with pytest.raises(ValueError, match="num_epochs must be a positive integer"):
            train.limit_epochs(1, epochs)
    with pytest.raises(ValueError, match=r"which must be known: give element_shape"):
        train.input_producer(af.placeholder(af.float32, [3, None]))
    with pytest.raises(ValueError, match="rank"):
        train.input_producer(3)
    with pytest.raises(ValueError, match="at least one tensor"):
        train.slice_input_producer([])
    with pytest.raises(ValueError, match="have 2, 3 rows"):
        train.slice_input_producer([[1, 2], [1, 2, 3]])
    assert graph.get_collection(af.GraphKeys.QUEUE_RUNNERS) == []
    assert train.input_producer(af.placeholder(af.float32, [None, None]), [4]).shapes == [af.TensorShape([4])]


# Batches


async def test_batches_are_stacked_in_order_and_what_does_not_fill_one_is_left_over_or_a_smaller_one(graph):
    x = numbers(7)
    whole = train.batch([x, x * 10], 3)
    assert [tensor.shape.as_list() for tensor in whole] == [[3], [3]]
    assert [lists(pair) for pair in await results(whole)] == [[[0, 1, 2], [0, 10, 20]], [[3, 4, 5], [30, 40, 50]]]
    with af.Graph().as_default():
        smaller = train.batch([numbers(7)], 3, allow_smaller_final_batch=True)
        assert smaller.shape.as_list() == [None]
        assert lists(await results(smaller)) == [[0, 1, 2], [3, 4, 5], [6]]


async def test_a_dict_gives_a_dict_and_a_list_of_one_a_tensor(graph):
    x = numbers(2)
    by_name = train.batch({"y": x, "x": x + 1}, 2)
    (found,) = await results(by_name)
    assert {name: value.tolist() for name, value in found.items()} == {"x": [1, 2], "y": [0, 1]}
    assert set(train.batch({"only": x}, 2)) == {"only"}
    assert isinstance(train.batch([x], 2), af.Tensor)


async def test_several_examples_at_once_are_taken_apart(graph):
    x = numbers(4)
    joined = train.batch([af.stack([x, x + 100, x + 200])], 4, enqueue_many=True)
    assert lists(await results(joined)) == [[0, 100, 200, 1], [101, 201, 2, 102], [202, 3, 103, 203]]


async def test_examples_of_different_sizes_are_filled_up(graph):
    x = numbers(4)
    ones, words = af.fill([x], x), af.fill([x, 1], "w")
    found = await results(train.batch([ones, words], 2, dynamic_pad=True))
    assert [lists(pair) for pair in found] == [
        [[[0], [1]], [[[b""]], [[b"w"]]]],
        [[[2, 2, 0], [3, 3, 3]], [[[b"w"], [b"w"], [b""]], [[b"w"], [b"w"], [b"w"]]]],
    ]


async def test_shapes_can_be_told(graph):
    x = af.py_func(lambda: np.float32([1, 2]), [], af.float32)
    assert train.batch([x], 3, shapes=[[2]]).shape.as_list() == [3, 2]
    with pytest.raises(ValueError, match=r"which must be known: give shapes=\n"):
        train.batch([x], 3)
    open_size = af.ensure_shape(x, [None])
    with pytest.raises(ValueError, match="give shapes=, or dynamic_pad=True"):
        train.batch([open_size], 3)
    with pytest.raises(ValueError, match=r"which must be known: give shapes=\n"):
        train.shuffle_batch([open_size], 3, 10, 5)


@pytest.mark.parametrize(
    ("make", "arguments"),
    [(train.maybe_batch, {}), (train.maybe_shuffle_batch, {"capacity": 20, "min_after_dequeue": 0})],
)
async def test_examples_are_kept_or_not_one_by_one(graph, make, arguments):
    x = numbers(10)
    kept = make([x], batch_size=2, keep_input=af.equal(x % 3, 0), **arguments)
    assert sorted(np.concatenate(await results(kept)).tolist()) == [0, 3, 6, 9]


async def test_of_several_examples_each_is_kept_or_not_or_all(graph):
    x = numbers(6)
    several = af.stack([x, x * 10])
    each = train.maybe_batch([several], several > 4, 2, enqueue_many=True)
    assert lists(await results(each)) == [[10, 20], [30, 40], [5, 50]]
    with af.Graph().as_default():
        x = numbers(6)
        every = train.maybe_batch([af.stack([x, x * 10])], x > 3, 2, enqueue_many=True)
        assert lists(await results(every)) == [[4, 40], [5, 50]]


async def test_what_is_kept_may_be_known_beforehand(graph):
    assert lists(await results(train.maybe_batch([numbers(2)], True, 2))) == [[0, 1]]
    with af.Graph().as_default():
        assert await results(train.maybe_batch([numbers(2)], False, 2)) == []


async def test_several_sources_are_joined(graph):
    joined = train.batch_join([[numbers(5), "a"], [numbers(3) + 100, "b"]], 2)
    found = await results(joined)
    pairs = [pair for x, name in found for pair in zip(x.tolist(), name.tolist(), strict=True)]
    assert sorted(pairs) == [(x, b"a") for x in range(5)] + [(x, b"b") for x in (100, 101, 102)]
    with af.Graph().as_default():
        kept = train.maybe_batch_join([{"x": numbers(4)}, {"x": numbers(4) + 100}], False, 2)
        assert await results(kept) == []


async def test_sources_whose_sizes_differ_are_joined_if_they_are_filled_up(graph):
    sources = [[af.ones([2, n], af.int32) * (numbers(1) + 1)] for n in (1, 3)]
    with pytest.raises(ValueError, match="are not compatible"):
        train.batch_join(sources, 2)
    (found,) = await results(train.batch_join(sources, 2, dynamic_pad=True))
    assert found.shape == (2, 2, 3)
    assert found.sum() == 8


@pytest.mark.parametrize("join", [False, True])
async def test_sparse_tensors_become_sparse_batches(graph, join):
    x = af.cast(numbers(4), af.int64)
    sparse = af.SparseTensor([[x % 2, x]], [x * 10], [2, x + 1])
    words = af.SparseTensor(af.stack([[x], [x + 1]]), ["a", "bc"], [9])
    made = train.batch_join([[x, sparse, words]], 2) if join else train.batch([x, sparse, words], 2)
    assert made[1].shape.as_list() == [None, None, None]
    _, (_, found, texts) = await results(made)
    assert found.indices.tolist() == [[0, 0, 2], [1, 1, 3]]
    assert found.values.tolist() == [20, 30]
    assert found.dense_shape.tolist() == [2, 2, 4]
    assert texts.indices.tolist() == [[0, 2], [0, 3], [1, 3], [1, 4]]
    assert texts.values.tolist() == [b"a", b"bc", b"a", b"bc"]


async def test_of_several_sparse_examples_those_that_are_wanted_become_a_batch(graph):
    rows = af.SparseTensor([[0, 1], [1, 0], [1, 1]], [1.0, 2.0, 3.0], [3, 2])
    rows = af.SparseTensor(rows.indices, train.limit_epochs(rows.values, 2), rows.dense_shape)
    made = train.maybe_shuffle_batch([rows], 2, 10, 0, [False, True, True], enqueue_many=True, shapes=[[2]], seed=1)
    found = await results(made)
    assert [value.dense_shape.tolist() for value in found] == [[2, 2], [2, 2]]
    assert sorted(np.concatenate([value.values for value in found]).tolist()) == [2, 2, 3, 3]


@pytest.mark.parametrize("join", [False, True])
async def test_shuffled_batches_hold_every_example_once_and_the_order_comes_from_the_seed(graph, join):
    async def batches(seed):
        with af.Graph().as_default():
            if join:
                made = train.shuffle_batch_join([[numbers(50)]], 5, 60, 20, seed=seed)
            else:
                made = train.shuffle_batch([numbers(50)], 5, 60, 20, seed=seed)
            return await results(made)

    first, again, other = [np.concatenate(await batches(seed)).tolist() for seed in (1, 1, 2)]
    assert first == again != other
    assert sorted(first) == list(range(50))
    assert first != list(range(50))


async def test_the_last_shuffled_batch_may_be_smaller(graph):
    made = train.shuffle_batch([numbers(7)], 3, 10, 2, num_threads=2, allow_smaller_final_batch=True)
    found = await results(made)
    assert [len(batch) for batch in found] == [3, 3, 1]
    assert sorted(np.concatenate(found).tolist()) == list(range(7))
    with af.Graph().as_default():
        kept = train.maybe_shuffle_batch_join([[numbers(9)], [numbers(9)]], 3, 10, 2, keep_input=True, seed=1)
        assert sorted(np.concatenate(await results(kept)).tolist()) == sorted([*range(9)] * 2)


async def test_several_tasks_make_examples_at_the_same_time(graph):
    at_once = most = 0

    async def slow(x):
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(1)
        at_once -= 1
        return x

    made = af.py_func(slow, [numbers(12)], af.int32)
    made.set_shape([])
    found = await results(train.batch([made], 3, num_threads=4))
    assert sorted(np.concatenate(found).tolist()) == list(range(12))
    assert most == 4
    assert asyncio.get_running_loop().time() == 3


def test_what_cannot_be_batched_is_refused_and_leaves_the_graph_as_it_was(graph):
    x, vector = af.constant(1), af.constant([True])
    sparse, words = af.SparseTensor([[0]], [1], [2]), af.SparseTensor([[0]], ["a"], [2])
    before = graph.version
    refused = [
        (TypeError, r"give \[<af.Tensor", lambda: train.batch(x, 2)),
        (ValueError, "at least one component", lambda: train.batch([], 2)),
        (ValueError, "at least one set of tensors", lambda: train.batch_join([], 2)),
        (ValueError, "num_threads must be at least 1", lambda: train.batch([x], 2, num_threads=0)),
        (ValueError, "lists, or dicts with the same keys", lambda: train.batch_join([{"a": x}, {"b": x}], 2)),
        (ValueError, "lists, or dicts with the same keys", lambda: train.batch_join([{"a": x}, [x]], 2)),
        (TypeError, "same dtypes, not int32 and float32", lambda: train.batch_join([[x], [1.0]], 2)),
        (ValueError, "as many components, not 1, 2", lambda: train.batch_join([[x], [x, x]], 2)),
        (ValueError, "2 shapes were given for 1 components", lambda: train.batch([x], 2, shapes=[[], []])),
        (ValueError, "keep_input is a vector", lambda: train.maybe_batch([x], vector, 2)),
        (ValueError, "scalar or a vector", lambda: train.maybe_batch([vector], [[True]], 2, enqueue_many=True)),
        (TypeError, "bool", lambda: train.maybe_batch([x], 1, 2)),
        (ValueError, "less than the capacity", lambda: train.shuffle_batch([x], 2, 10, 10)),
        (TypeError, "sparse in all sets of tensors or in none", lambda: train.batch_join([[sparse], [x]], 2)),
        (TypeError, "the same dtype in all sets", lambda: train.batch_join([[sparse], [words]], 2)),
    ]
    for kind, text, build in refused:
        with pytest.raises(kind, match=text):
            build()
    assert graph.version == before
    assert graph.get_collection(af.GraphKeys.QUEUE_RUNNERS) == []


async def test_a_shared_queue_is_filled_by_one_session_and_read_by_another():
    with af.Graph().as_default() as graph, af.container("shared_input"):
        taken = train.batch([numbers(4)], 2, shared_name="batches")
    try:
        async with af.Session(graph=graph) as filling, af.Session(graph=graph) as taking:
            with graph.as_default():
                await filling.run(af.local_variables_initializer())
            async with train.Coordinator() as coord:
                train.start_queue_runners(filling, coord)
                assert lists([await taking.run(taken), await taking.run(taken)]) == [[0, 1], [2, 3]]
    finally:
        await af.reset(["shared_input"])


# The whole of it


async def test_the_classic_training_program(graph):
    """Producers, several shuffling tasks, a training loop until the input ends; each example is seen once an epoch."""
    x = np.linspace(-1, 1, 40, dtype=np.float32)
    inputs, targets = train.slice_input_producer([x, 3 * x + 1], num_epochs=10, seed=1)
    xs, ys = train.shuffle_batch([inputs, targets], 8, capacity=40, min_after_dequeue=16, num_threads=2, seed=2)
    slope, bias = af.Variable(0.0), af.Variable(0.0)
    loss = af.reduce_mean(af.square(slope * xs + bias - ys))
    step = train.GradientDescentOptimizer(0.3).minimize(loss)
    async with af.Session(graph=graph) as session:
        await session.run([af.global_variables_initializer(), af.local_variables_initializer()])
        coord = train.Coordinator()
        tasks = train.start_queue_runners(session, coord)
        steps = 0
        try:
            while not coord.should_stop():
                await session.run([step, loss])
                steps += 1
        except errors.OutOfRangeError:
            pass
        finally:
            coord.request_stop()
        await coord.join(tasks)
        assert steps == 50
        np.testing.assert_allclose(await session.run([slope, bias]), [3, 1], atol=1e-2)


@pytest.mark.real
async def test_the_classic_program_over_files(graph, tmp_path):
    """Names of files, two readers, lines parsed and shuffled, summed up till the input ends: each once an epoch."""
    for number in range(4):
        lines = [f"{10 * number + line}.5" for line in range(10)]
        (tmp_path / f"part{number}.txt").write_text("\n".join(["a heading", *lines, ""]))
    (tmp_path / "other.csv").write_text("nothing")
    names = train.match_filenames_once(str(tmp_path / "*.txt"))
    files = train.string_input_producer(names, num_epochs=2, seed=3)
    examples = []
    for _ in range(2):
        reader = TextLineReader(skip_header_lines=1)
        _, line = reader.read(files)
        examples.append([af.string_to_number(line)])
    batch = train.shuffle_batch_join(examples, 7, capacity=30, min_after_dequeue=10, allow_smaller_final_batch=True)
    total = af.Variable(0.0, name="total")
    add = total.assign_add(af.reduce_sum(batch))
    seen = []
    async with af.Session(graph=graph) as session:
        await session.run([af.global_variables_initializer(), af.local_variables_initializer()])
        assert len(await session.run(names)) == 4
        async with train.Coordinator() as coord:
            train.start_queue_runners(session, coord)
            while not coord.should_stop():
                _, values = await session.run([add, batch])
                seen += values.tolist()
        assert sorted(seen) == sorted(2 * [number + 0.5 for number in range(40)])
        assert await session.run(total) == sum(seen)


@pytest.mark.real
async def test_a_missing_file_is_the_error_that_the_training_loop_ends_with(graph, tmp_path):
    (tmp_path / "there").write_text("contents")
    files = train.string_input_producer([str(tmp_path / "there"), str(tmp_path / "missing")], shuffle=False)
    _, contents = WholeFileReader().read(files)
    batch = train.batch([contents], 2)

    async def body(session):
        async with train.Coordinator() as coord:
            train.start_queue_runners(session, coord)
            while not coord.should_stop():
                await session.run(batch)

    async with af.Session(graph=graph) as session:
        with pytest.raises(errors.NotFoundError, match="missing") as caught, no_pending_tasks():
            await body(session)
        assert caught.value.op_type == "reader_read"
