"""Cases for ronde.tensorflow's collectives."""

import gc
import warnings

import keras
import numpy as np
import pytest
import ronde
import ronde.keras
import ronde.tensorflow as hvd
import tensorflow as tf
from cases import check_refusals
from ronde._tensorflow.library import library

NEEDS = "tensorflow"
RANKS = (3,)  # two run them through Python, see tensorflow_test.py

FLOATING = [tf.float16, tf.bfloat16, tf.float32, tf.float64]
WHOLE = [getattr(tf, f"{kind}{8 << size}") for kind in ("int", "uint") for size in range(4)]


def mine(*shape, dtype=tf.float32, rank=None):
    """Small whole numbers that differ between ranks."""
    count = int(np.prod(shape))
    values = tf.range(count) % 5 + 1 + (hvd.rank() if rank is None else rank)
    return tf.cast(tf.reshape(values, shape), dtype)


def total(*shape, dtype=tf.float32):
    return sum(mine(*shape, dtype=dtype, rank=r) for r in range(hvd.size()))


def plain(value):
    """As an array; NumPy itself does not know bfloat16."""
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def same(tensor, expected):
    np.testing.assert_array_equal(plain(tensor), plain(expected))


def close(tensor, expected):
    np.testing.assert_allclose(plain(tensor), plain(expected), rtol=0, atol=1e-5)


def case_sums_are_right_in_every_type_eager_and_in_a_graph():
    kinds = [(dtype, shape) for dtype in FLOATING + WHOLE for shape in [(), (0,), (17,), (3, 4)]]
    given = [mine(*shape, dtype=dtype) for dtype, shape in kinds]
    in_graph = tf.function(lambda tensors: [hvd.allreduce(t, op=hvd.Sum) for t in tensors])(given)
    for (dtype, shape), tensor, found in zip(kinds, given, in_graph):
        same(found, total(*shape, dtype=dtype))
        same(hvd.allreduce(tensor, op=hvd.Sum), total(*shape, dtype=dtype))
        same(tensor, mine(*shape, dtype=dtype))  # the input is as it was


def case_average_is_the_default_and_the_old_argument_works():
    tensor = tf.fill([4], float(hvd.rank()))
    mean = (hvd.size() - 1) / 2
    same(hvd.allreduce(tensor), [mean] * 4)
    same(hvd.allreduce(tensor, average=False), [mean * hvd.size()] * 4)
    with pytest.raises(ValueError, match="not both"):
        hvd.allreduce(tensor, average=True, op=hvd.Sum)


def case_averages_of_integers_are_truncated_and_do_not_overflow():
    for dtype in (tf.int8, tf.uint8, tf.int16, tf.uint16):
        ends = tf.constant([dtype.min, dtype.max], dtype)
        for run in (hvd.allreduce, tf.function(hvd.allreduce)):
            same(run(ends), ends)
    whole = tf.constant([-7 if hvd.rank() == 0 else 0])
    same(hvd.allreduce(whole), [-(7 // hvd.size())])


def case_the_gradient_of_a_weighted_mean_is_this_ranks_share():
    weights = [1.0 + r for r in range(hvd.size())]

    def gradient(given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            mean = hvd.allreduce(given, name="share", weight=weights[hvd.rank()])
            loss = tf.reduce_sum(mean) * (hvd.rank() + 1)
        return tape.gradient(loss, given)

    factor = sum(r + 1 for r in range(hvd.size())) * weights[hvd.rank()] / sum(weights)
    close(gradient(tf.ones(3)), [factor] * 3)
    close(tf.function(gradient)(tf.ones(3)), [factor] * 3)


def case_min_max_product_and_scaling():
    ranks = [mine(6, rank=r) for r in range(hvd.size())]
    same(hvd.allreduce(mine(6), op=hvd.Min), ranks[0])
    same(hvd.allreduce(mine(6), op=hvd.Max), ranks[-1])
    same(hvd.allreduce(mine(6), op=hvd.Product), tf.reduce_prod(ranks, axis=0))
    scaled = hvd.allreduce(mine(6), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    same(scaled, total(6) * 2)
    third = hvd.allreduce(tf.ones(1, tf.float64), prescale_factor=1 / 3)
    assert abs(float(third[0]) - 1 / 3) < 1e-15, "scale factors are doubles all the way"


def case_groups_are_one_operation():
    given = [mine(3), mine(2, 2, dtype=tf.float64), mine(5, dtype=tf.int32)]
    expected = [total(3), total(2, 2, dtype=tf.float64), total(5, dtype=tf.int32)]
    for run in (hvd.grouped_allreduce, tf.function(hvd.grouped_allreduce)):
        for result, wanted in zip(run(given, op=hvd.Sum), expected):
            same(result, wanted)
    gathered = hvd.grouped_allgather([mine(2), mine(1, 3)])
    assert [t.shape[0] for t in gathered] == [2 * hvd.size(), hvd.size()]
    parts = hvd.grouped_reducescatter([tf.ones([hvd.size(), 2]), tf.ones(hvd.size())], op=hvd.Sum)
    assert [p.shape for p in parts] == [(1, 2), (1,)]


def case_uneven_rows_are_gathered():
    rows = hvd.rank() + 1
    expected = tf.concat([tf.fill([r + 1, 2], r) for r in range(hvd.size())], axis=0)
    graph = tf.function(lambda t: hvd.allgather(t))
    same(hvd.allgather(tf.fill([rows, 2], hvd.rank())), expected)
    same(graph(tf.fill([rows, 2], hvd.rank())), expected)
    static = graph.get_concrete_function(tf.TensorSpec([3, 2])).output_shapes
    assert static.as_list() == [None, 2]


def case_broadcast_gives_the_roots_tensor_in_every_type():
    for dtype in [*FLOATING, *WHOLE, tf.bool, tf.complex64, tf.complex128]:
        same(hvd.broadcast(mine(3, dtype=dtype), 1), mine(3, dtype=dtype, rank=1))


def check_complex(run, dtype):
    """Every collective, of one complex number and of several; `run` calls a function of them."""
    n, r = hvd.size(), hvd.rank()
    one = tf.constant(r + 2j, dtype)
    many = tf.cast(tf.range(n), dtype) + tf.constant(1j, dtype)
    same(run(lambda: hvd.allreduce(one, op=hvd.Sum)), n * (n - 1) // 2 + 2j * n)
    same(run(lambda: hvd.allreduce(many)), many)
    same(run(lambda: hvd.allgather(one)), [s + 2j for s in range(n)])
    same(run(lambda: hvd.allgather(many[:r])), tf.concat([many[:s] for s in range(n)], 0))
    same(run(lambda: hvd.broadcast(one, 1)), 1 + 2j)
    same(run(lambda: hvd.alltoall(many)), tf.fill([n], many[r]))
    same(run(lambda: hvd.reducescatter(many, op=hvd.Sum)), [n * (r + 1j)])


def case_complex_numbers_go_through_every_collective():
    for dtype in (tf.complex64, tf.complex128):
        check_complex(lambda call: call(), dtype)
        check_complex(lambda call: tf.function(call)(), dtype)


def case_complex_variables_are_broadcast_and_trained():
    n, r = hvd.size(), hvd.rank()
    variable = tf.Variable(tf.constant(r + 2j, tf.complex64))
    hvd.broadcast_variables([variable], root_rank=1)
    same(variable, 1 + 2j)
    with tf.GradientTape() as tape:
        loss = tf.math.abs(variable) ** 2 * (r + 1)
    gradient = hvd.DistributedGradientTape(tape).gradient(loss, [variable])[0]
    close(gradient, (n + 1) * (1 + 2j))
    with tf.GradientTape() as tape:
        loss = tf.math.abs(hvd.allreduce(variable * (r + 1), op=hvd.Sum)) ** 2
    assert tape.gradient(loss, variable) is not None


def case_integers_that_a_cast_leaves_alone_are_said_once():
    for expected in (1, 0):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            whole = tf.constant([2, 3])
            result = hvd.allreduce(whole, op=hvd.Sum, compression=hvd.Compression.fp16)
        same(result, [2 * hvd.size(), 3 * hvd.size()])
        assert sum("int32 are sent as they are" in str(one.message) for one in caught) == expected
    with pytest.raises(ronde.InvalidArgumentError, match="int32"):
        hvd.allreduce(tf.constant([2, 3]), compression=hvd.Compression.int8)


def case_alltoall_with_and_without_splits():
    n, r = hvd.size(), hvd.rank()
    same(hvd.alltoall(tf.range(n) + 10 * r), [r + 10 * s for s in range(n)])
    splits = tf.range(n) + 1

    @tf.function
    def exchange(tensor):
        return hvd.alltoall(tensor, splits=splits)

    result, received = exchange(tf.fill([int(tf.reduce_sum(splits))], r))
    same(received, [r + 1] * n)
    assert received.dtype == tf.int32
    same(result, np.repeat(np.arange(n), r + 1))


def case_reducescatter_leaves_the_first_ranks_a_row_more():
    n, r = hvd.size(), hvd.rank()
    part = hvd.reducescatter(tf.reshape(tf.range(2 * n + 2), [n + 1, 2]), op=hvd.Sum)
    first = 0 if r == 0 else r + 1
    same(part, np.arange(2 * n + 2).reshape(n + 1, 2)[first : first + len(part)] * n)
    with pytest.raises(hvd.HorovodInternalError):
        hvd.reducescatter(tf.constant(1.0))


def case_indexed_slices_are_joined():
    slices = tf.IndexedSlices(mine(2, 3), tf.constant([hvd.rank(), 5]), tf.constant([6, 3]))
    for run in (hvd.allreduce, tf.function(hvd.allreduce)):
        dense = tf.convert_to_tensor(run(slices, op=hvd.Sum))
        same(dense[5], total(2, 3)[1])
        same(dense[hvd.rank()], mine(2, 3)[0])
    averaged = hvd.allreduce(slices, compression=hvd.Compression.fp16)
    same(tf.convert_to_tensor(averaged)[5] * hvd.size(), total(2, 3)[1])
    with pytest.raises(NotImplementedError, match="summed and averaged"):
        hvd.allreduce(slices, op=hvd.Max)


def case_gradients_flow_through_collectives():
    n, r = hvd.size(), hvd.rank()

    def gradient(function, x, weight=1.0):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(function(x) * weight)
        return tape.gradient(y, x)

    for wrap in (lambda f: f, tf.function):
        g = wrap(gradient)
        same(g(lambda x: hvd.allreduce(x, op=hvd.Sum), tf.ones(3)), [float(n)] * 3)
        same(g(lambda x: hvd.allreduce(x), tf.ones(3)), [1.0] * 3)
        same(g(lambda x: hvd.broadcast(x, 1), tf.ones(2)), [float(r == 1)] * 2)
        weights = tf.repeat(tf.range(n, dtype=tf.float32), tf.range(n) + 1)
        same(g(lambda x: hvd.allgather(x), tf.ones(r + 1), weights), [float(r)] * (r + 1))
        same(g(lambda x: hvd.alltoall(x), tf.ones(n)), [1.0] * n)
        same(g(lambda x: hvd.reducescatter(x, op=hvd.Sum), tf.ones(2 * n)), [float(n)] * 2 * n)


def case_names_are_the_same_after_retracing_and_with_other_numbers():
    # Rank 0 has made more operations of its own, as one that saves checkpoints does.
    if hvd.rank() == 0:
        tf.function(lambda: tf.cond(tf.constant(True), lambda: 1, lambda: 2))()

    @tf.function
    def two(x):
        inner = tf.cond(x[0] > 0, lambda: hvd.allreduce(x), lambda: x)
        return inner + hvd.allreduce(x) + hvd.allreduce(2 * x)

    for length in (2, 3, 2):
        same(two(tf.ones(length)), [4.0] * length)


def case_iterations_of_a_loop_do_not_match():
    @tf.function
    def loop(x):
        sums = tf.TensorArray(tf.float32, 25)
        for i in tf.range(25):
            sums = sums.write(i, hvd.allreduce(x + tf.cast(i, tf.float32), op=hvd.Sum))
        return sums.stack()

    expected = [hvd.size() * i for i in range(25)]
    same(loop(tf.constant(0.0)), np.array(expected, np.float32))


def case_a_result_that_one_rank_ignores_is_computed_all_the_same():
    @tf.function
    def careless(x):
        y = hvd.allreduce(x, op=hvd.Sum)
        return y if hvd.rank() == 0 else x

    same(careless(tf.ones(2)), [float(hvd.size() if hvd.rank() == 0 else 1)] * 2)
    same(hvd.allreduce(tf.ones(1), op=hvd.Sum), [float(hvd.size())])


def case_process_sets():
    members = [0, 1] if hvd.size() > 2 else [1]
    some = hvd.add_process_set(members)
    if some.included():
        result = hvd.allreduce(tf.ones(2), op=hvd.Sum, process_set=some)
        same(result, [float(len(members))] * 2)
        graph = tf.function(lambda t: hvd.broadcast(t, 1, process_set=some))
        same(graph(mine(3)), mine(3, rank=1))
    included = tf.function(lambda: hvd.process_set_included_op(some.process_set_id))
    assert int(included()) == (hvd.rank() in members)
    assert int(hvd.size_op(some.process_set_id)) == len(members)
    hvd.remove_process_set(some)
    with pytest.raises(ValueError, match="not registered"):
        hvd.allreduce(tf.ones(2), process_set=some)


def case_a_set_that_this_rank_is_not_in_is_a_wrong_argument():
    first = hvd.add_process_set([0])
    collectives = (hvd.allreduce, hvd.allgather, hvd.alltoall, hvd.reducescatter)
    for run in collectives if hvd.rank() else ():
        for form in (run, tf.function(run)):
            with pytest.raises(tf.errors.InvalidArgumentError):
                form(tf.ones(3), process_set=first)
    hvd.remove_process_set(first)
    invented = hvd.ProcessSet([0])
    invented.process_set_id = 99
    with pytest.raises(ValueError, match="not registered"):
        hvd.allreduce(tf.ones(3), process_set=invented)


def case_a_rank_outside_of_the_tapes_process_set_keeps_its_gradients():
    members = list(range(hvd.size() - 1))
    first = hvd.add_process_set(members)
    variable = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        loss = variable * float(hvd.rank())
    (gradient,) = hvd.DistributedGradientTape(tape, process_set=first).gradient(loss, [variable])
    same(gradient, sum(members) / len(members) if first.included() else float(hvd.rank()))
    hvd.remove_process_set(first)


def case_sessions_of_ranks_with_different_graphs_join():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for first in range(2):
            tensor = tf.fill([3], 1.0, name="gradient")
            if hvd.rank() != first:
                total = hvd.allreduce(tensor, op=hvd.Sum)
                same(session.run(total), [hvd.size() - 1.0] * 3)
            assert session.run(hvd.join()) != first


def case_a_session_runs_what_other_ranks_wait_for():
    start, expected = plain(mine(3)), plain(mine(3, rank=1))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for root in range(hvd.size()):  # the gradient is zeros where this rank is not the root
            tensor = tf.ones(3)
            (gradient,) = tf.gradients(hvd.broadcast(tensor, root), tensor)
            same(session.run(gradient), [float(hvd.rank() == root)] * 3)
        variable = tf.compat.v1.get_variable("v", initializer=start, use_resource=True)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(hvd.broadcast_variables([variable], 1))
        same(session.run(variable), expected)


def case_a_function_traced_differently_on_one_rank_is_a_mismatch_at_once():
    @tf.function
    def traced(x):
        y = hvd.allreduce(x)
        return y + hvd.allreduce(y) if hvd.rank() else y + hvd.allgather(y)

    with pytest.raises(ronde.MismatchError, match="1 allgather, 1 allreduce"):
        traced(tf.ones(1))
    same(hvd.allreduce(tf.ones(1)), [1.0])


def case_of_a_function_that_has_gone_no_text_is_kept():
    kernels = library()
    texts = kernels.programs
    forget, forgotten = texts.forget, []
    texts.forget = lambda number: forgotten.append(forget(number))
    try:
        for _ in range(3):
            same(tf.function(lambda x: hvd.allreduce(x))(tf.ones(2)), [1.0, 1.0])
        gc.collect()
    finally:
        texts.forget = forget
    # tf.py_function, which runs them otherwise, keeps the functions itself.
    assert not kernels.is_compiled or sum(forgotten) >= 3


def case_who_am_i_in_a_graph():
    ask = tf.function(
        lambda: (hvd.rank_op(), hvd.size_op(), hvd.local_rank_op(), hvd.local_size_op())
    )
    expected = (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size())
    assert tuple(int(value) for value in ask()) == expected


def case_barrier_and_join():
    hvd.barrier()
    tf.function(lambda: hvd.barrier())()
    if hvd.rank() == 0:
        same(hvd.allreduce(tf.ones(2), op=hvd.Sum, name="left alone"), [1.0, 1.0])
    last = hvd.join()
    assert last.dtype == tf.int32
    assert int(last) == hvd.broadcast_object(int(last))


def case_variables_and_objects_are_broadcast():
    variables = [tf.Variable(mine(3)), tf.Variable(mine(2, 2, dtype=tf.int64)), tf.Variable(True)]
    hvd.broadcast_variables(variables, 1)
    same(variables[0], mine(3, rank=1))
    same(variables[1], mine(2, 2, dtype=tf.int64, rank=1))
    tf.function(lambda: hvd.broadcast_variables(variables[:1], 0))()
    same(variables[0], mine(3, rank=1))
    assert hvd.broadcast_object({"rank": hvd.rank()}, 1) == {"rank": 1}
    assert hvd.broadcast_object_fn(0)(hvd.rank()) == 0
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))
    with pytest.raises(ValueError, match="no built variable"):
        hvd.broadcast_variables([tf.ones(2)], 0)


def case_different_numbers_of_variables_are_an_error_everywhere():
    variables = [tf.Variable(1.0)] * (1 + (hvd.rank() > 0))
    with pytest.raises(ronde.MismatchError):
        hvd.broadcast_variables(variables if hvd.rank() else [], 0)


def case_disagreements_are_typed_and_leave_the_job_usable():
    wrong = tf.ones(3 + (hvd.rank() == 1))
    for run in (hvd.allreduce, tf.function(hvd.allreduce)):
        with pytest.raises(ronde.MismatchError, match=r"collective_cases\.py:") as caught:
            run(wrong)
        assert isinstance(caught.value, tf.errors.FailedPreconditionError)
        assert "[ronde.error" not in str(caught.value)
        same(hvd.allreduce(tf.ones(1), op=hvd.Sum), [float(hvd.size())])


def case_types_and_values_that_are_not_allowed():
    with pytest.raises(ValueError, match="string is not supported; allowed"):
        hvd.allreduce(tf.constant("text"))
    with pytest.raises(ValueError, match="complex64 can be summed and averaged only"):
        hvd.allreduce(tf.constant([1j], tf.complex64), op=hvd.Max)
    for call in (hvd.alltoall, hvd.reducescatter):
        with pytest.raises(ValueError, match="has no first dimension"):
            call(tf.constant(1j))
    with pytest.raises(ValueError, match="root rank 99"):
        hvd.broadcast(tf.ones(1), 99)
    assert hvd.grouped_allreduce([]) == []


WRONG_CALLS = {
    "a model as a state": (
        lambda: ronde.keras.elastic.UpdateEpochStateCallback(keras.Sequential()),
        r"state must be one with `epoch`, such as KerasState\(.* not ",
    ),
    "a commit after no batch": (
        lambda: ronde.keras.elastic.CommitStateCallback(
            ronde.elastic.ObjectState(step=0), batches_per_commit=0
        ),
        "batches_per_commit=0; allowed: whole numbers from 1",
    ),
    "no model": (
        lambda: ronde.keras.elastic.KerasState(None),
        "model must be a keras.Model, not None",
    ),
    "an epoch": (
        lambda: ronde.keras.callbacks.LearningRateScheduleCallback(0.1, 1.0, end_epoch="9"),
        "end_epoch must be a number, not '9'",
    ),
    "halves of rows": (
        lambda: hvd.alltoall(tf.ones(4), [1.5, 2.5]),
        "splits must be whole numbers, the rows for each rank, not of type float32",
    ),
    "a name": (lambda: hvd.allreduce(tf.ones(1), name=3), "name must be a str, not 3"),
    "an op": (lambda: hvd.allreduce(tf.ones(1), op="sum"), "op must be Average, .* not 'sum'"),
    "an unknown op": (lambda: hvd.reducescatter(tf.ones(4), op=99), "op=99; allowed: Average, Sum"),
    "a factor": (
        lambda: hvd.allreduce(tf.ones(1), prescale_factor="2"),
        "prescale_factor must be a number, not '2'",
    ),
    "a root": (lambda: hvd.broadcast(tf.ones(1), "0"), "root_rank must be an int, not '0'"),
    "a set's number": (
        lambda: hvd.allgather(tf.ones(1), process_set=0),
        "process_set must be a ProcessSet, .* not 0",
    ),
    "a callback's root": (
        lambda: ronde.keras.callbacks.BroadcastGlobalVariablesCallback("0"),
        "root_rank must be an int, not '0'",
    ),
    "a warm-up": (
        lambda: ronde.keras.callbacks.LearningRateWarmupCallback(0.1, warmup_epochs="5"),
        "warmup_epochs must be a number, not '5'",
    ),
    "a sparse tensor": (
        lambda: hvd.allreduce(tf.sparse.from_dense([1.0, 0.0])),
        r"SparseTensor is not supported; allowed: dense tensors; tf.sparse.to_dense\(\) makes one",
    ),
    "a codec for integers": (
        lambda: hvd.allreduce(tf.ones(1, tf.int32), name="counts", compression="int8"),
        r'allreduce "counts" \(.*collective_cases.py:\d+\): compression of int32 is not defined',
    ),
    "a single tensor of a group": (
        lambda: hvd.grouped_allgather(tf.ones(3)),
        "a list of tensors is needed, not EagerTensor",
    ),
    "a number as a group": (lambda: hvd.grouped_allreduce(3), "a list of tensors is needed"),
    "no group": (lambda: hvd.grouped_reducescatter(None), "a list of tensors is needed"),
    "a weight": (
        lambda: hvd.allreduce(tf.ones(3), weight=[1, 2]),
        r"weight must be a number or a tensor of one, not \[1, 2\]",
    ),
    "a text as weight": (
        lambda: hvd.allreduce(tf.ones(3), weight="1"),
        "weight must be a number or a tensor of one, not '1'",
    ),
    "splits of several types": (
        lambda: hvd.alltoall(tf.ones(3), [1, None]),
        r"splits must be whole numbers, the rows for each rank, not \[1, None\]",
    ),
    "no codec": (
        lambda: hvd.reducescatter(tf.ones((2, 2)), compression=3),
        "compression must be one of Compression.* not 3",
    ),
    "a tensor of text as op": (
        lambda: hvd.allreduce(tf.ones(3), op=tf.constant("sum")),
        "op must be Average, .* not ",
    ),
    "a model as variables": (
        lambda: hvd.broadcast_variables(keras.Sequential(), 0),
        "a list of variables, such as model.variables, is needed, not Sequential",
    ),
    "a number as local layers": (
        lambda: hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers=3),
        "local_layers: a int is no keras.layers.Layer",
    ),
    "a list as a set's number": (
        lambda: hvd.size_op([0]),
        r"process_set_id must be an int, not \[0\]",
    ),
    "no value": (
        lambda: ronde.keras.allreduce(None),
        "value must be a number or an array, not None",
    ),
    "a text as average of values": (
        lambda: ronde.keras.allreduce(1.0, average="no"),
        "average must be True or False, not 'no'",
    ),
    "splits of other ranks": (
        lambda: hvd.alltoall(tf.ones(4), [4] * hvd.size(), name="rows"),
        r'alltoall "rows" \(.*collective_cases.py:\d+\): rank 0 of the group gave splits that',
    ),
}


def case_wrong_calls_are_refused_in_a_sentence():
    check_refusals(WRONG_CALLS, ronde.InvalidArgumentError)
    hvd.barrier()


def case_xla_is_refused_while_tracing():
    with pytest.raises(ronde.UnsupportedError, match="jit_compile=False"):
        tf.function(lambda t: hvd.allreduce(t), jit_compile=True)(tf.ones(2))


def case_sync_batch_normalization_equals_the_joined_batch():
    for options in ({}, {"scale": False, "center": False}, {"center": False}, {"scale": False}):
        check_sync_batch_normalization(options)


def check_sync_batch_normalization(options):
    parts = [np.random.default_rng(r).normal(r, 1 + r, (2 + r, 3)) for r in range(hvd.size())]
    whole = tf.constant(np.concatenate(parts).astype("f"))
    mine = tf.constant(parts[hvd.rank()].astype("f"))
    reference = keras.layers.BatchNormalization(**options)
    layer = hvd.SyncBatchNormalization(**options)

    def run(norm, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = norm(x, training=True)
            loss = tf.reduce_sum(tf.sin(y))
        return y, tape.gradient(loss, x)

    first = sum(len(part) for part in parts[: hvd.rank()])
    rows = slice(first, first + len(mine))
    for wrap in (lambda f: f, tf.function):
        output, gradient = wrap(lambda: run(layer, mine))()
        expected, expected_gradient = run(reference, whole)
        close(output, expected[rows])
        close(gradient, expected_gradient[rows])
    close(layer.moving_mean, reference.moving_mean)
    close(layer.moving_variance, reference.moving_variance)
