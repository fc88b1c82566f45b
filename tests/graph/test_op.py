"""How ops are called: by position, by name, by TensorFlow 1.15's old names, and wrongly."""

import inspect

import pytest

import aioflow as af


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize(
    "build",
    [
        lambda x: af.identity(x, "n"),
        lambda x: af.add(x, x, "n"),
        lambda x: af.no_op("n"),
        lambda x: af.reduce_sum(x, 1, True, "n"),
        lambda x: af.reshape(x, [2], "n"),
        lambda x: af.concat([x, x], 0, "n"),
        lambda x: af.nn.relu(x, "n"),
        lambda x: af.check_numerics(x, "m", "n"),
        lambda x: af.shape(x, "n"),
        lambda x: af.size(x, "n"),
        lambda x: af.argmax(x, 1, "n"),
        lambda x: af.argmax(x, name="n", output_type=af.int32),
    ],
)
def test_a_name_may_be_given_by_position_where_tensorflow_takes_it(build):
    made = build(af.placeholder(af.float32, [1, 2]))
    assert (made.op if isinstance(made, af.Tensor) else made).name == "n"


@pytest.mark.parametrize(
    "build",
    [
        lambda x: af.reduce_sum(x, reduction_indices=1, keep_dims=True),
        lambda x: af.reduce_sum(x, 1, keep_dims=True),
        lambda x: af.reduce_sum(x, axis=1, keepdims=True),
    ],
)
def test_names_of_parameters_that_were_given_up_still_work(build):
    assert build(af.placeholder(af.float32, [3, 2])).shape == [3, 1]


def test_a_call_that_does_not_fit_says_how_the_op_is_called():
    x = af.placeholder(af.float32, [])
    for call, said in [
        (lambda: af.add(x), "missing a required argument: 'y'"),
        (lambda: af.add(x, x, x, x), "too many positional arguments"),
        (lambda: af.add(x, y=x, z=x), "unexpected keyword argument 'z'"),
        (lambda: af.add(x, x, x=x), "multiple values for argument 'x'"),
    ]:
        with pytest.raises(TypeError, match=said) as caught:
            call()
        assert "add(x, y, name=None)" in str(caught.value)
        assert f"built at: {__file__}" in str(caught.value)


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda x: af.constant(1.5, af.int32), "constant"),
        (lambda x: af.constant([1, 2, 3], shape=[2]), "constant"),
        (lambda x: af.cast(x, "nope"), "cast"),
        (lambda x: af.Variable(1.0, dtype=af.int32), ""),
        (lambda x: af.random_uniform([2], dtype=af.int32), "random_uniform"),
        (lambda x: x[0.5], ""),
        (lambda x: af.transpose(x, x), "transpose"),
        (lambda x: af.zeros([None]), "zeros"),
        (lambda x: af.nn.dropout(x), "dropout"),
        (lambda x: af.group(3), "group"),
        (lambda x: af.gradients(None, x), "None"),
    ],
)
def test_whatever_is_built_wrongly_is_blamed_on_the_users_line(build, what):
    x = af.placeholder(af.float32, [2, 2])
    with pytest.raises((TypeError, ValueError)) as caught:
        build(x)
    assert what in str(caught.value)
    assert f"built at: {__file__}" in str(caught.value)


def test_adding_to_a_finalized_graph_names_what_and_where(graph):
    x = af.placeholder(af.float32, [])
    graph.finalize()
    with pytest.raises(RuntimeError, match=r"'tanh' cannot be added: the graph is finalized") as caught:
        af.tanh(x)
    assert __file__ in str(caught.value)


def test_help_shows_the_parameters():
    assert list(inspect.signature(af.matmul).parameters)[:4] == ["a", "b", "transpose_a", "transpose_b"]
    assert af.tanh.__doc__


def test_literals_alone_share_the_dtype_of_the_first():
    assert af.add([1.0, 2.0], 3).dtype is af.float32
    assert af.sparse_to_dense([1], [3], [0.5]).dtype is af.float32
    assert af.maximum(2, af.constant(1.5)).dtype is af.float32
    with pytest.raises(TypeError, match="argument 'y'"):
        af.add(2, 1.5)


def test_a_check_sees_constants_as_values_and_leaves_what_is_not_known_to_the_run(graph):
    indices = af.placeholder(af.int32, [None])
    version = graph.version
    with pytest.raises(ValueError, match=r"index 4 is out of range for size 3\n  inputs: .*\n  built at: .*test_op"):
        af.gather([1.0, 2.0, 3.0], [[0], [4]])
    assert graph.version == version
    for build in (
        lambda: af.gather([1.0, 2.0, 3.0], indices),
        lambda: af.gather(af.placeholder(af.float32, [None]), [4]),
        lambda: af.gather(af.placeholder(af.float32), [[4]]),
    ):
        assert build().op.type == "gather"


@pytest.mark.parametrize(
    "build",
    [
        lambda x: af.reduce_sum(x, 0, reduction_indices=0),
        lambda x: af.reduce_max(x, reduction_indices=0, axis=0),
        lambda x: af.reduce_mean(x, keepdims=True, keep_dims=True),
        lambda x: af.argmax(x, axis=0, dimension=0),
        lambda x: af.squeeze(x, [0], squeeze_dims=[0]),
        lambda x: af.expand_dims(x, axis=0, dim=0),
        lambda x: af.norm(x, keepdims=True, keep_dims=False),
        lambda x: af.reduce_join(af.as_string(x), axis=0, reduction_indices=0),
        lambda x: af.nn.softmax(x, axis=0, dim=0),
        lambda x: af.nn.l2_normalize(x, axis=0, dim=0),
        lambda x: af.nn.moments(x, [0], keepdims=True, keep_dims=True),
        lambda x: af.nn.weighted_cross_entropy_with_logits(x, x, 1.0, targets=x),
        lambda x: af.sparse_reduce_sum(af.SparseTensor([[0, 0]], [1], [1, 2]), axis=0, reduction_axes=0),
        lambda x: af.sparse_concat(0, [af.SparseTensor([[0, 0]], [1], [1, 2])], concat_dim=0),
        lambda x: af.image.crop_and_resize(x, x, [0], [2, 2], box_indices=[0]),
        lambda x: af.decode_raw("a", af.uint8, bytes="a"),
        lambda x: af.strings.split(["a"], source=["a"]),
        lambda x: af.nn.softmax_cross_entropy_with_logits_v2(x, x, axis=0, dim=0),
        lambda x: af.sparse_split(sp_input=af.SparseTensor([[0, 0]], [1], [1, 2]), num_split=1, axis=0, split_dim=0),
    ],
)
def test_an_argument_given_by_both_its_names_is_refused(build):
    with pytest.raises(ValueError, match="is given by two names"):
        build(af.placeholder(af.float32, [1, 2]))


@pytest.mark.parametrize(
    ("build", "known"),
    [
        (lambda x: af.nn.bias_add(x, [1.0] * 4), [None, None, 4]),
        (lambda x: af.nn.bias_add(x, [1.0] * 4, "NCHW"), [None, 4, None]),
        (lambda x: af.reverse_sequence(x, [1, 2], seq_axis=1), [2, None, None]),
        (lambda x: af.matrix_set_diag(x, af.ones([2, 3])), [2, None, None]),
        (lambda x: af.matrix_set_diag(af.placeholder(af.float32), af.ones([2, 3])), [2, None, None]),
        (lambda x: af.sequence_mask([1, 3, 2]), [3, 3]),
        (lambda x: af.sequence_mask(af.shape(x)), [3, None]),
        (lambda x: af.image.crop_to_bounding_box(x, 0, 0, 5, 6), [5, 6, None]),
        (lambda x: af.image.pad_to_bounding_box(x, 0, 0, 5, 6), [5, 6, None]),
        (lambda x: af.image.grayscale_to_rgb(x), [None, None, 3]),
    ],
)
def test_a_size_that_another_input_tells_is_known(build, known):
    assert build(af.placeholder(af.float32, [None, None, None])).shape == known


@pytest.mark.parametrize(
    "build",
    [
        lambda: af.clip_by_norm(af.ones([2]), 1.0, name="n"),
        lambda: af.clip_by_average_norm(af.ones([2]), 1.0, name="n"),
        lambda: af.image.rgb_to_grayscale(af.ones([2, 2, 3]), name="n"),
        lambda: af.image.transpose(af.ones([2, 2, 3]), name="n"),
    ],
)
def test_the_result_of_a_function_has_the_name_that_is_given(build):
    assert build().op.name == "n"


def test_the_form_of_a_name_is_checked_before_the_name_is_looked_up(graph):
    with pytest.raises(ValueError, match="'x' names an operation; a tensor's name is 'x:0'"):
        graph.get_tensor_by_name("x")
    with pytest.raises(ValueError, match="'x:0' names a tensor; its operation's name is 'x'"):
        graph.get_operation_by_name("x:0")
    with pytest.raises(KeyError, match="no operation 'x'"):
        graph.get_tensor_by_name("x:0")


@pytest.mark.parametrize(
    ("part", "rank"),
    [(slice(2), 2), (slice(1, 4), 3), (slice(1, None), None), (slice(-2, None), None), (slice(0, 4, 2), None)],
)
def test_a_slice_of_a_shape_of_unknown_rank_has_the_length_that_it_tells(part, rank):
    assert af.TensorShape(None)[part].ndims == rank
