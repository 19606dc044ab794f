"""Cases for graphs of ronde.tensorflow, and for input it must refuse."""

import math
import warnings

import keras
import numpy as np
import pytest
import ronde
import ronde.tensorflow as hvd
import tensorflow as tf
from ronde._tensorflow import program

NEEDS = "tensorflow"
RANKS = (2,)
OPTIONS = ("--horovod",)


def same(tensor, expected, tolerance=0.0):
    np.testing.assert_allclose(np.asarray(tensor), np.asarray(expected), rtol=0, atol=tolerance)


def gradient_of(rank, shape=(64, 65)):
    return np.random.default_rng(rank).normal(size=shape).astype("f")


def mean_gradient(shape=(64, 65)):
    return sum(gradient_of(rank, shape) for rank in range(hvd.size())) / hvd.size()


def reduced(variables, **options):
    """The averaged gradients of a loss whose gradients are gradient_of(this rank)."""
    with tf.GradientTape() as tape:
        loss = tf.add_n(
            [tf.reduce_sum(v * gradient_of(hvd.rank(), tuple(v.shape))) for v in variables]
        )
    return hvd.DistributedGradientTape(tape, **options).gradient(loss, variables)


def kernels_of(function, *arguments):
    """The allreduce nodes of a traced function."""
    graph = tf.function(function).get_concrete_function(*arguments).graph
    return [node for node in graph.get_operations() if node.type == "RondeAllreduce"]


def case_many_operations_of_one_graph_in_any_order():
    @tf.function
    def many(x):
        results = [hvd.allreduce(x * float(i), op=hvd.Sum) for i in range(500)]
        return tf.stack(results)

    same(many(tf.ones(3))[:, 0], np.arange(500.0) * hvd.size())


def case_the_small_gradients_of_500_variables_travel_in_runs():
    variables = [tf.Variable(tf.zeros([3])) for _ in range(499)]
    variables.append(tf.Variable(tf.zeros([600, 600])))  # too large to travel with others

    def step():
        return reduced(variables)

    assert len(kernels_of(step)) == math.ceil(499 / 32) + 1
    for gradient, variable in zip(tf.function(step)(), variables):
        same(gradient, mean_gradient(tuple(variable.shape)), 1e-6)


def case_gradients_that_the_next_step_needs_first_have_the_highest_priority():
    variables = [tf.Variable(tf.zeros([4, 4])) for _ in range(3)]
    nodes = kernels_of(lambda: reduced(variables))
    found = {node.get_attr("names")[0]: node.get_attr("priorities") for node in nodes}
    by_name = [priorities for _, priorities in sorted(found.items())]
    assert by_name == [[0], [-1], [-2]]


def case_gradients_are_compressed_by_every_codec_alike_on_all_ranks():
    C, shape = hvd.Compression, (128, 130)  # large enough for all of them
    codecs = {C.fp16: 1e-3, C.bf16: 8e-3, C.int8: 0.03, C.int4(): 0.4, C.onebit(warmup=0): 2.5}
    for wrap in (lambda f: f, tf.function):
        for codec, tolerance in codecs.items():
            matrix, vector = tf.Variable(tf.zeros(shape)), tf.Variable(tf.zeros([64]))
            found = wrap(lambda: reduced([matrix, vector], compression=codec))()  # noqa: B023
            exact = mean_gradient(shape)
            error = np.linalg.norm(found[0] - exact) / np.linalg.norm(exact)
            assert 0 < error < tolerance, (codec.wire, error)
            same(found[1], mean_gradient((64,)), 1e-6)  # vectors travel as they are
            same(hvd.allgather(found[0][tf.newaxis]), [found[0]] * hvd.size())


def case_a_dict_of_patterns_says_what_each_gradient_travels_as():
    coarse = tf.Variable(tf.zeros([64, 65]), name="coarse")
    exact = tf.Variable(tf.zeros([64, 65]), name="exact")
    found = reduced([coarse, exact], compression={"coarse*": hvd.Compression.int4})
    same(found[1], mean_gradient(), 1e-6)
    assert np.abs(found[0] - mean_gradient()).max() > 1e-3


def case_what_compression_leaves_over_comes_with_the_next_sum():
    mine, steps = gradient_of(hvd.rank()), 50
    options = {"name": "later", "compression": hvd.Compression.int4}
    total = sum(hvd.allreduce(mine, **options).numpy() for _ in range(steps))
    off = np.linalg.norm(total / steps - mean_gradient()) / np.linalg.norm(mean_gradient())
    assert off < 0.1
    state = hvd.Compression.state_dict()
    assert (0, "later") in state["residuals"]
    hvd.Compression.load_state_dict(state)
    assert hvd.Compression.memory() >= mine.nbytes


def case_codecs_of_allreduces_are_refused_elsewhere():
    with pytest.raises(ValueError, match="works in allreduce"):
        hvd.reducescatter(tf.ones([4, 4]), compression=hvd.Compression.int8)
    with pytest.raises(ValueError, match="compression"):
        hvd.allreduce(tf.ones([4, 4], tf.int32), compression=hvd.Compression.int8, op=hvd.Sum)


def case_shapes_that_differ_between_ranks_are_a_mismatch_and_may_change_together():
    @tf.function(input_signature=[tf.TensorSpec([None])])
    def total(x):
        return hvd.allreduce(x, op=hvd.Sum)

    same(total(tf.ones(2)), [hvd.size()] * 2)
    with pytest.raises(ronde.MismatchError, match=r"shape \[3\].*shape \[4\]"):
        total(tf.ones(3 + (hvd.rank() == 1)))
    same(total(tf.ones(5)), [hvd.size()] * 5)

    @tf.function(input_signature=[tf.TensorSpec(None)])
    def of_any_rank(x):
        return hvd.allgather(x), hvd.allreduce(x, op=hvd.Sum)

    gathered, summed = of_any_rank(tf.ones([2, 3]))
    assert gathered.shape == (2 * hvd.size(), 3)
    same(summed, np.full((2, 3), hvd.size()))


def case_gradients_that_are_none_on_all_ranks_stay_none():
    used, unused = tf.Variable(1.0), tf.Variable(1.0)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = used * (hvd.rank() + 1.0)
        return hvd.DistributedGradientTape(tape).gradient(loss, [unused, used])

    found = step()
    assert found[0] is None
    same(found[1], (hvd.size() + 1) / 2)


def case_gradients_that_are_none_on_one_rank_only_are_a_mismatch_that_says_which():
    variables = [tf.Variable(tf.zeros([3])) for _ in range(3)]

    def step():
        chosen = variables[:2] if hvd.rank() else variables[::2]
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(v) for v in chosen])
        return hvd.DistributedGradientTape(tape).gradient(loss, variables)

    with pytest.raises(ronde.MismatchError, match=r"variables 0, 2 of 3 .*variables 0-1 of 3"):
        step()
    with pytest.raises(ronde.MismatchError, match=r'"step".*traced with 2 allreduce'):
        tf.function(step)()


def case_types_without_numbers_are_refused_by_name():
    for value, name in ((tf.constant("text"), "string"), (tf.Variable(1.0).handle, "resource")):
        for collective in (hvd.allreduce, hvd.allgather, tf.function(hvd.allreduce)):
            with pytest.raises(ValueError, match=f"{name} is not supported; allowed"):
                collective(value)
        with pytest.raises(ValueError, match=f"{name} is not supported; allowed"):
            hvd.broadcast(value, 0)


def case_values_that_are_no_dense_tensors_are_refused_by_their_kind():
    ragged = tf.ragged.constant([[1.0], [1.0, 2.0]])
    sparse = tf.sparse.from_dense([1.0, 0.0])
    for value in (ragged, sparse, None):
        for collective in (hvd.allreduce, hvd.allgather, tf.function(hvd.allreduce)):
            kind = f"{type(value).__name__} is not supported; allowed: dense tensors"
            with pytest.raises(ronde.InvalidArgumentError, match=kind):
                collective(value)


def case_broadcasting_the_variables_of_a_model_that_is_not_built_warns():
    model = keras.Sequential([keras.layers.Dense(1)])
    with pytest.warns(UserWarning, match="got no variables; a model that is not built") as caught:
        hvd.broadcast_variables(model.variables, 0)
    assert caught[0].filename == __file__
    model.build((None, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hvd.broadcast_variables(model.variables, 0)


def case_xla_is_refused_in_nested_functions_too():
    @tf.function
    def inner(x):
        return hvd.allreduce(x)

    with pytest.raises(ronde.UnsupportedError, match="jit_compile=False"):
        tf.function(lambda x: inner(x) + 1.0, jit_compile=True)(tf.ones(2))


def case_eager_and_graph_operations_take_turns():
    graph = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))
    for value in (1.0, 2.0):
        same(hvd.allreduce(graph(hvd.allreduce(tf.constant(value)))), value * hvd.size())


def case_what_programs_say_in_eager_mode_is_kept_for_the_latest_only():
    texts = program.Texts()
    said = [f"text {i}" for i in range(2 * program._MOST_EAGER)]
    kept = program.note(texts, "allreduce", ["x"], 0, said[0])
    numbers = []
    for text in said:
        numbers.append(program.note(texts, "allreduce", ["x"], 0, text))
        assert program.note(texts, "allreduce", ["x"], 0, said[0]) == kept
    assert texts.text(numbers[-1], 0) == said[-1]
    assert texts.text(kept, 0) == said[0]
    assert texts.text(numbers[1], 0) == ""
    assert len(texts._texts) == program._MOST_EAGER
