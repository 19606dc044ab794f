"""Cases for the NumPy collectives."""

import threading
from unittest import mock

import numpy as np
import pytest
import ronde
from ronde._collectives import pickling

WHOLE = [f"{kind}{8 << size}" for kind in ("int", "uint") for size in range(4)]
DTYPES = [*WHOLE, "float16", "float32", "float64"]
OPS = {
    ronde.Sum: np.add,
    ronde.Min: np.minimum,
    ronde.Max: np.maximum,
    ronde.Product: np.multiply,
}


def of_rank(rank, shape, dtype):
    """Small whole numbers that differ between ranks, so that every type adds them exactly."""
    return (np.arange(np.prod(shape, dtype=int)) % 5 + rank + 1).astype(dtype).reshape(shape)


def of_all(shape, dtype):
    return [of_rank(r, shape, dtype) for r in range(ronde.size())]


def mine(shape, dtype):
    return of_rank(ronde.rank(), shape, dtype)


def case_allreduce_combines_every_type_by_every_operation():
    for dtype in DTYPES:
        for op, function in OPS.items():
            for shape in [(), (0,), (1,), (7,), (3, 5)]:
                expected = of_all(shape, dtype)[0]
                for other in of_all(shape, dtype)[1:]:
                    expected = function(expected, other)
                result = ronde.allreduce(mine(shape, dtype), op=op)
                assert result.dtype == dtype
                assert result.shape == shape
                np.testing.assert_array_equal(result, expected, f"{dtype} {op} {shape}")


class Lent:
    """An array of a library that offers DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **asked):
        return self.array.__dlpack__(**asked)


def case_arrays_of_other_libraries_are_used_where_they_lie():
    total = sum(range(1, ronde.size() + 1))
    lent = Lent(np.full((2, 3), ronde.rank() + 1, np.float32))
    assert ronde.allreduce(lent, op=ronde.Sum).tolist() == [[total] * 3] * 2
    assert ronde.allreduce(lent, op=ronde.Sum, out=lent) is lent
    assert lent.array.tolist() == [[total] * 3] * 2
    assert ronde.allgather(Lent(np.full(2, ronde.rank()))).size == 2 * ronde.size()
    ronde.broadcast(lent, 0, out=lent)
    ronde.grouped_allreduce([lent, lent.array.copy()], op=ronde.Max, out=[lent, lent.array.copy()])


def case_allreduce_averages_by_default():
    result = ronde.allreduce(np.full(5, ronde.rank(), np.float64))
    np.testing.assert_allclose(result, (ronde.size() - 1) / 2)


def case_the_average_of_equal_values_is_that_value():
    rng = np.random.default_rng(1)
    for dtype in (np.float32, np.float64):
        values = (rng.standard_normal(5000) * 10.0 ** rng.integers(-30, 30, 5000)).astype(dtype)
        np.testing.assert_array_equal(ronde.allreduce(values), values)


def case_weights_make_a_weighted_mean():
    me, size = ronde.rank(), ronde.size()
    for dtype in ("float16", "float32", "float64"):
        for step in range(3):
            weights = [step + 2.5 * r for r in range(size)]
            wanted = sum(w * of_rank(r, 9, dtype).astype(float) for r, w in enumerate(weights))
            result = ronde.allreduce(mine(9, dtype), name="weighted", weight=weights[me])
            limit = 4 * np.finfo(dtype).eps
            np.testing.assert_allclose(result, wanted / sum(weights), rtol=limit)
            both = ronde.grouped_allreduce([mine(9, dtype)] * 2, weight=weights[me])
            np.testing.assert_allclose(both[1], wanted / sum(weights), rtol=limit)
    with pytest.raises(ValueError, match="the weights of all ranks are 0"):
        ronde.allreduce(np.ones(2), name="weighted", weight=0)


def case_averages_of_integers_are_truncated_and_do_not_overflow():
    for dtype in (np.int8, np.uint8, np.int16, np.uint16):
        ends = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
        np.testing.assert_array_equal(ronde.allreduce(ends), ends)
    mine = np.array([-7 if ronde.rank() == 0 else 0], np.int32)
    assert ronde.allreduce(mine)[0] == -(7 // ronde.size())


def case_bitwise_operations_combine_integers():
    bit = np.array([1 << ronde.rank()], np.int32)
    assert ronde.allreduce(bit, op=ronde.BitOr)[0] == (1 << ronde.size()) - 1
    assert ronde.allreduce(bit, op=ronde.BitAnd)[0] == 0
    assert ronde.allreduce(bit, op=ronde.BitXor)[0] == (1 << ronde.size()) - 1


def case_bool_is_reduced_as_or_and_and():
    flags = np.array([ronde.rank() == 0, True, False])
    assert ronde.allreduce(flags, op=ronde.Max).tolist() == [True, True, False]
    assert ronde.allreduce(flags, op=ronde.Min).tolist() == [False, True, False]


def case_scaling_multiplies_before_and_after():
    result = ronde.allreduce(
        np.full(4, 2.0, np.float32), op=ronde.Sum, prescale_factor=0.5, postscale_factor=3.0
    )
    np.testing.assert_allclose(result, 3.0 * ronde.size())


def case_allreduce_in_place_writes_into_the_array():
    array = mine((4, 3), "float32")
    result = ronde.allreduce(array, op=ronde.Sum, out=array)
    assert result is array
    np.testing.assert_array_equal(array, sum(of_all((4, 3), "float32")))


def case_arrays_in_shared_memory_are_reduced_in_place():
    array = ronde.empty((3, 100_000), "float64")
    assert array.shape == (3, 100_000)
    assert array.dtype == np.float64
    assert array.flags.writeable
    array[:] = mine(array.shape, "float64")
    result = ronde.allreduce(array, op=ronde.Sum, out=array)
    assert result is array
    np.testing.assert_array_equal(array, sum(of_all(array.shape, "float64")))
    assert ronde.empty(0).shape == (0,)
    assert ronde.empty(5, np.int8).nbytes == 5


def case_arrays_in_shared_memory_outlive_the_job():
    array = ronde.empty(100_000)
    view = array[10:20]
    view[:] = 7
    del array
    ronde.barrier()
    ronde.shutdown()
    try:
        assert (view == 7).all()
        with pytest.raises(ronde.NotInitializedError):
            ronde.empty(1)
    finally:
        ronde.init()


def case_arrays_that_are_not_contiguous_are_copied_and_copied_back():
    base = mine((4, 6), "float32")
    array = base[:, ::2]
    ronde.allreduce(array, op=ronde.Sum, out=array)
    expected = sum(a[:, ::2] for a in of_all((4, 6), "float32"))
    np.testing.assert_array_equal(base[:, ::2], expected)
    np.testing.assert_array_equal(base[:, 1::2], mine((4, 6), "float32")[:, 1::2])
    transposed = ronde.allreduce(mine((2, 3), "int64").T, op=ronde.Sum)
    np.testing.assert_array_equal(transposed, sum(of_all((2, 3), "int64")).T)


def case_many_in_flight_end_in_any_order():
    arrays = [np.full(n + 1, ronde.rank() + n, np.float32) for n in range(50)]
    order = list(range(50)) if ronde.rank() % 2 else list(reversed(range(50)))
    handles = {n: ronde.allreduce_async(arrays[n], f"t{n}", ronde.Sum) for n in order}
    for n in range(50):
        total = sum(r + n for r in range(ronde.size()))
        np.testing.assert_array_equal(handles[n].wait(), np.full(n + 1, total))
        assert handles[n].done()


def case_waiting_twice_gives_the_same_result():
    handle = ronde.allreduce_async(np.ones(3), op=ronde.Sum)
    assert ronde.synchronize(handle) is handle.wait()


def case_a_dropped_handle_keeps_its_memory_until_done():
    for n in range(20):
        ronde.allreduce_async(np.ones(10_000), f"dropped{n}")
    ronde.barrier()


def case_grouped_allreduce_reduces_each_tensor():
    arrays = [mine((3,), "float32"), mine((2, 2), "float32"), mine((5,), "int32")]
    results = ronde.grouped_allreduce(arrays, "group", ronde.Sum)
    for array, result in zip(arrays, results):
        np.testing.assert_array_equal(result, sum(of_all(array.shape, array.dtype)))


def case_allgather_joins_uneven_rows():
    rows = ronde.rank() + 1
    result = ronde.allgather(np.full((rows, 2), ronde.rank(), np.int16))
    expected = np.concatenate([np.full((r + 1, 2), r, np.int16) for r in range(ronde.size())])
    np.testing.assert_array_equal(result, expected)
    assert result.flags.writeable


def case_allgather_takes_empty_parts():
    part = np.empty((0 if ronde.rank() == 0 else 2, 3), np.float32)
    assert ronde.allgather(part).shape == (2 * (ronde.size() - 1), 3)
    assert ronde.allgather(np.empty((0, 3), np.float32)).shape == (0, 3)


def case_broadcast_gives_the_roots_array():
    for root in range(ronde.size()):
        array = mine((3, 2), "float64")
        result = ronde.broadcast(array, root)
        np.testing.assert_array_equal(result, of_rank(root, (3, 2), "float64"))
        np.testing.assert_array_equal(array, mine((3, 2), "float64"))
        ronde.broadcast(array, root, out=array)
        np.testing.assert_array_equal(array, of_rank(root, (3, 2), "float64"))


def case_reduce_scatter_gives_the_first_ranks_one_row_more():
    rows = 2 * ronde.size() + 1
    result = ronde.reduce_scatter(mine((rows, 3), "float32"), op=ronde.Sum)
    total = sum(of_all((rows, 3), "float32"))
    starts = [2 * r + min(r, 1) for r in range(ronde.size() + 1)]
    begin, end = starts[ronde.rank()], starts[ronde.rank() + 1]
    np.testing.assert_array_equal(result, total[begin:end])


def case_alltoall_sends_uneven_rows():
    size, rank = ronde.size(), ronde.rank()
    splits = [(rank + r) % 3 for r in range(size)]
    rows = np.concatenate([np.full((n, 2), 10 * rank + r, np.int32) for r, n in enumerate(splits)])
    result, counts = ronde.alltoall(rows, splits)
    assert counts == [(r + rank) % 3 for r in range(size)]
    expected = [np.full((n, 2), 10 * r + rank, np.int32) for r, n in enumerate(counts)]
    np.testing.assert_array_equal(result, np.concatenate(expected))


def case_alltoall_is_even_without_splits():
    size, rank = ronde.size(), ronde.rank()
    result, counts = ronde.alltoall(np.arange(2 * size) + 100 * rank)
    assert counts == [2] * size
    expected = [[100 * r + 2 * rank, 100 * r + 2 * rank + 1] for r in range(size)]
    np.testing.assert_array_equal(result, np.ravel(expected))


def case_reduce_and_gather_give_the_root_alone():
    root = ronde.size() - 1
    total = ronde.reduce(mine((4,), "int64"), root, op=ronde.Sum)
    parts = ronde.gather(mine((ronde.rank() + 1, 2), "float32"), root)
    if ronde.rank() != root:
        assert total is None
        assert parts is None
        return
    np.testing.assert_array_equal(total, sum(of_all((4,), "int64")))
    expected = [of_rank(r, (r + 1, 2), "float32") for r in range(ronde.size())]
    np.testing.assert_array_equal(parts, np.concatenate(expected))


def case_scatter_hands_out_the_roots_parts():
    whole = np.arange(6 * ronde.size(), dtype=np.float32).reshape(-1, 3)
    out = np.zeros((2, 3), np.float32)
    result = ronde.scatter(whole if ronde.rank() == 0 else None, out, 0)
    assert result is out
    np.testing.assert_array_equal(out, whole[2 * ronde.rank() : 2 * ronde.rank() + 2])


def case_messages_reach_the_rank_and_tag_they_are_for():
    size, rank = ronde.size(), ronde.rank()
    after, before = (rank + 1) % size, (rank - 1) % size
    first = ronde.send_async(np.full(3, rank, np.int32), after, tag=1)
    second = ronde.send_async(np.full(2, 10 + rank, np.int32), after, tag=2)
    late, source = ronde.recv(np.empty(2, np.int32), before, tag=2)
    assert late.tolist() == [10 + before] * 2
    assert source == before
    early, source = ronde.recv(np.empty(3, np.int32), ronde.ANY_SOURCE, tag=1)
    assert early.tolist() == [before] * 3
    assert source == before
    first.wait()
    second.wait()


def case_objects_travel():
    everything = ronde.allgather_object({"rank": ronde.rank(), "text": "x" * ronde.rank()})
    assert [o["rank"] for o in everything] == list(range(ronde.size()))
    given = {"from": ronde.rank()}
    assert ronde.broadcast_object(given, 1)["from"] == 1


def case_an_object_that_cannot_be_pickled_is_an_error_on_all_ranks():
    last = ronde.size() - 1
    mine = threading.Lock() if ronde.rank() == last else "plain"
    said = f"the object of rank {last} cannot be pickled: it is a _thread.lock; .*cannot pickle"
    with pytest.raises(ronde.InvalidArgumentError, match=f"broadcast_object: {said}"):
        ronde.broadcast_object(mine, last, name="unpicklable")
    with pytest.raises(ronde.InvalidArgumentError, match=f"allgather_object: {said}"):
        ronde.allgather_object(mine)
    case_objects_travel()


def case_lambdas_and_local_classes_travel_by_cloudpickle():
    pytest.importorskip("cloudpickle")

    class Local:
        def __init__(self, value):
            self.value = value

    root = ronde.size() - 1
    me = ronde.rank()
    mine = (lambda x: x + me, Local(me))
    function, local = ronde.broadcast_object(mine, root)
    assert (function(1), local.value) == (1 + root, root)
    found = ronde.allgather_object({"f": mine[0], "of": mine[1]})
    assert [one["f"](2) for one in found] == [2 + r for r in range(ronde.size())]
    assert [one["of"].value for one in found] == list(range(ronde.size()))


def case_without_cloudpickle_the_error_says_what_to_install():
    with mock.patch.object(pickling, "cloudpickle", return_value=None):
        said = r"it is a function; .*cloudpickle can pickle lambdas and local classes: install it"
        with pytest.raises(ronde.InvalidArgumentError, match=said):
            ronde.broadcast_object(lambda: 3, 0)


def case_what_is_no_handle_is_a_clear_error():
    for call in (ronde.poll, ronde.synchronize):
        with pytest.raises(ronde.InvalidArgumentError, match=r"handle .* is needed, not int"):
            call(7)


def case_join_returns_the_last_rank_everywhere():
    for n in range(ronde.rank()):
        result = ronde.allreduce(np.ones(3), f"uneven{n}", ronde.Sum)
        assert result.tolist() == [float(ronde.size() - 1 - n)] * 3
    last = ronde.join()
    assert ronde.allgather_object(last) == [last] * ronde.size()


def case_a_process_set_reduces_among_its_ranks():
    # Neither all ranks (that set exists) nor an unbroken run of them where there are three.
    members = [0, 2] if ronde.size() > 2 else [1]
    chosen = ronde.add_process_set(members)
    assert chosen.size() == len(members)
    assert chosen.included() == (ronde.rank() in members)
    if chosen.included():
        assert chosen.rank() == members.index(ronde.rank())
        total = ronde.allreduce(np.ones(4), op=ronde.Sum, process_set=chosen)
        assert total.tolist() == [float(len(members))] * 4
    assert ronde.remove_process_set(chosen)
    assert chosen.process_set_id is None
    assert not ronde.remove_process_set(chosen)
    with pytest.raises(ronde.InvalidArgumentError, match="not registered"):
        ronde.allreduce(np.ones(1), process_set=chosen)


def case_an_equal_process_set_is_refused():
    with pytest.raises(ValueError):  # noqa: PT011
        ronde.add_process_set(list(range(ronde.size())))


def case_init_twice_and_after_shutdown_works():
    ronde.init()
    for _ in range(3):
        ronde.shutdown()
        ronde.shutdown()
        assert not ronde.is_initialized()
        with pytest.raises(ronde.NotInitializedError, match="init"):
            ronde.allreduce(np.ones(1))
        ronde.init()
        assert ronde.allreduce(np.ones(1), op=ronde.Sum)[0] == ronde.size()
