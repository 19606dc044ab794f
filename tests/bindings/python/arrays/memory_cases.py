"""Cases for memory that users hand over.

Every buffer lies between canaries. A call that is refused leaves all of it as it was, on every
rank, and the job goes on.
"""

import contextlib
import random
import warnings

import numpy as np
import pytest
import ronde

GUARD = 16  # elements on each side
CANARY = 77


class Guarded:
    """An array between canaries."""

    def __init__(self, shape, dtype=np.float32, value=0):
        count = int(np.prod(shape, dtype=int))
        self.memory = np.full(count + 2 * GUARD, CANARY, dtype)
        self.memory[GUARD : GUARD + count] = value
        self.array = self.memory[GUARD : GUARD + count].reshape(shape)
        self.before = self.memory.copy()

    def untouched(self):
        """True if the array is as it was made."""
        return self.memory.tobytes() == self.before.tobytes()

    def whole(self):
        """True if the canaries are there."""
        ends = np.concatenate([self.memory[:GUARD], self.memory[-GUARD:]])
        return bool((ends == np.array(CANARY, self.memory.dtype)).all())


def calls(array, out):
    """Every call of NumPy's functions that writes to the caller's array, by name."""
    return {
        "allreduce": lambda: ronde.allreduce(array, "memory", ronde.Sum, out=out),
        "allreduce_async": lambda: ronde.allreduce_async(array, "m", ronde.Sum, out=out).wait(),
        "broadcast": lambda: ronde.broadcast(array, 0, "memory", out=out),
        "broadcast_async": lambda: ronde.broadcast_async(array, 0, "m", out=out).wait(),
        "grouped_allreduce": lambda: ronde.grouped_allreduce(
            [array, np.ones(1)], "memory", ronde.Sum, out=[out, np.ones(1)]
        ),
        "grouped_allreduce_async": lambda: ronde.grouped_allreduce_async(
            [array], "m", ronde.Sum, out=[out]
        ).wait(),
    }


def refused(call, *, match):
    """The message of the error that the call raises."""
    with pytest.raises(ronde.InvalidArgumentError, match=match) as caught:
        call()
    return str(caught.value)


def wrong_outputs(shape):
    """(a defect's name, an output with it, what the error says) for an input of float32."""
    read_only = Guarded(shape)
    read_only.array.flags.writeable = False
    rows, columns = shape
    return [
        ("shorter", Guarded((rows - 1, columns)), "out.* has shape .*the input has shape"),
        ("longer", Guarded((rows + 3, columns)), "out.* has shape .*the input has shape"),
        ("reshaped", Guarded((columns, rows + 1)), "has shape"),
        ("flat", Guarded((rows * columns,)), "has shape"),
        ("float64", Guarded(shape, np.float64), "float64.*float32"),
        ("int32", Guarded(shape, np.int32), "int32.*float32"),
        ("float16", Guarded(shape, np.float16), "float16.*float32"),
        ("swapped", Guarded(shape, ">f4"), "not supported; allowed"),
        ("objects", Guarded(shape, object), "not supported; allowed"),
        ("read-only", read_only, "read-only"),
    ]


def case_outputs_that_do_not_fit_are_refused_by_every_call_and_nothing_is_touched():
    shape = (5, 3)
    for defect, guarded, said in wrong_outputs(shape):
        given = Guarded(shape, value=ronde.rank() + 1)
        for name, call in calls(given.array, guarded.array).items():
            text = refused(call, match=said)
            operation = name.removeprefix("grouped_").removesuffix("_async")
            assert text.startswith(operation), text
            assert given.untouched(), (name, defect)
            assert guarded.memory.tobytes() == guarded.before.tobytes(), (name, defect)
    total = sum(range(1, ronde.size() + 1))
    good = Guarded(shape)
    for name, call in calls(np.full(shape, ronde.rank() + 1, np.float32), good.array).items():
        call()
        assert good.whole(), name
        assert (good.array == (1 if "broadcast" in name else total)).all(), name


def case_an_output_that_overlaps_its_input_is_refused_unless_it_is_the_input():
    memory = np.arange(12, dtype=np.float32)
    before = memory.copy()
    for first in (1, 2, 3):
        for name, call in calls(memory[:4], memory[first : first + 4]).items():
            refused(call, match="overlaps")
            assert (memory == before).all(), name
    ronde.allreduce(memory[:4], op=ronde.Max, out=memory[:4])
    ronde.allreduce(memory[:4], op=ronde.Max, out=memory[4:8])
    assert memory[4:8].tolist() == before[:4].tolist()


def case_outputs_of_a_group_share_no_memory():
    ones = [np.ones(4, np.float32), np.ones(4, np.float32)]
    memory = np.zeros(12, np.float32)
    wrong = [
        [memory[:4], memory[2:6]],
        [memory[:4], memory[:4]],
        [memory[:8:2], memory[4:8]],
        [memory[:8:2], memory[2:10:2]],
    ]
    for out in wrong:
        refused(lambda: ronde.grouped_allreduce(ones, out=out), match="overlaps|share memory")  # noqa: B023
        assert not memory.any()
    refused(
        lambda: ronde.grouped_allreduce([memory[:4], memory[4:8]], out=[memory[4:8], memory[:4]]),
        match="overlaps input",
    )
    repeats = np.lib.stride_tricks.as_strided(memory, (2, 2), (4, 4))
    refused(lambda: ronde.allreduce(np.ones((2, 2), np.float32), out=repeats), match="one place")
    ronde.grouped_allreduce(ones, op=ronde.Sum, out=[memory[:8:2], memory[1:9:2]])
    assert memory.tolist() == [ronde.size()] * 8 + [0] * 4
    refused(lambda: ronde.grouped_allreduce(ones, out=[memory[:4]]), match="2 inputs.*1 outputs")


def case_a_rank_that_was_refused_alone_tries_again_and_the_others_go_on():
    for name in (None, "again"):
        if ronde.rank() == 0:
            out = Guarded((2,))
            refused(lambda: ronde.allreduce(np.ones(3), name, out=out.array), match="has shape")  # noqa: B023
            assert out.untouched()
        assert ronde.allreduce(np.ones(3), name, ronde.Sum).tolist() == [ronde.size()] * 3
    with pytest.raises(ronde.InvalidArgumentError, match="allowed: extents from 0"):
        ronde.empty((2, -1))


def case_scatter_checks_the_roots_array():
    size, part = ronde.size(), Guarded((2,))
    whole = np.arange(2 * size, dtype=np.float32)
    wrong = [whole[:-1], whole.astype(np.float64), np.ones(2 * size + 1, np.float32), None]
    for array in wrong:
        if ronde.rank() == 0:
            refused(
                lambda array=array: ronde.scatter(array, part.array, 0), match=r"^scatter.* has "
            )
            assert part.untouched()
    ronde.barrier()
    assert ronde.scatter(whole, part.array, 0).tolist() == [
        2 * ronde.rank(),
        2 * ronde.rank() + 1,
    ]
    assert part.whole()


def case_a_message_longer_than_its_array_is_an_error_and_writes_nothing_behind_it():
    small = Guarded((3,))
    if ronde.rank() == 0:
        with pytest.raises(ronde.Error):
            ronde.recv(small.array, 1, tag=35)
        assert small.whole()
        refused(lambda: ronde.recv(np.zeros(2, object), 1), match="hold objects")
        refused(lambda: ronde.recv(memoryview(b"1234"), 1), match="must be an array")
    elif ronde.rank() == 1:
        ronde.send(np.ones(5_000, np.float32), 0, tag=35)
    ronde.barrier()


def case_a_message_of_another_dtype_is_an_error_and_is_not_written():
    kept = Guarded((3,))
    for sent in (np.ones(3, np.int32), np.ones(3, ">f4"), np.ones(100_000, "M8[s]")):
        if ronde.rank() == 0:
            ronde.send(sent, ronde.size() - 1, tag=36)
        elif ronde.rank() == ronde.size() - 1:
            given = np.zeros(sent.shape, np.float32) if sent.nbytes > 12 else kept.array
            with pytest.raises(ronde.Error, match=r"recv: rank 0 sent .* of float32|only"):
                ronde.recv(given, 0, tag=36)
            assert kept.untouched()
    ronde.barrier()


def case_a_message_may_be_received_as_bytes():
    if ronde.rank() == 0:
        ronde.send(np.arange(3, dtype=np.int32), ronde.size() - 1, tag=37)
    elif ronde.rank() == ronde.size() - 1:
        raw, _ = ronde.recv(np.zeros(12, np.uint8), 0, tag=37)
        assert raw.view(np.int32).tolist() == [0, 1, 2]
    ronde.barrier()


def case_arrays_of_other_kinds_are_read_rightly_or_refused():
    size = ronde.size()
    values = np.ones((2, 2), np.float32)
    assert ronde.allreduce([[1.0, 2.0]], op=ronde.Sum).tolist() == [[size, 2 * size]]
    assert ronde.allreduce(3, op=ronde.Sum) == 3 * size
    assert ronde.allreduce(bytearray(b"\1\2"), op=ronde.Sum).tolist() == [size, 2 * size]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrix = np.matrix(values)
    assert ronde.allreduce(matrix, op=ronde.Sum, out=matrix) is matrix
    assert (matrix == size).all()
    raw = np.zeros(4 * 4 + 1, np.uint8)
    unaligned = raw[1:].view(np.float32)
    ronde.allreduce(np.ones(4, np.float32), op=ronde.Sum, out=unaligned)
    assert unaligned.tolist() == [size] * 4
    assert raw[0] == 0
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    for call in (ronde.allreduce, ronde.allgather):
        refused(lambda call=call: call(masked), match="masked")
        refused(lambda call=call: call(np.zeros(2, [("a", "f4")])), match="not supported")
        refused(lambda call=call: call([[1], [2, 3]]), match="not an array")
        refused(lambda call=call: call(None), match="not supported")
    for wrong in ([0.0], (0.0,), 0.0, bytearray(4), memoryview(bytearray(4))):
        refused(lambda wrong=wrong: ronde.allreduce(np.ones(1), out=wrong), match="out must be an")


def case_an_array_in_flight_lives_on_and_cannot_be_resized():
    if ronde.rank() == 0:
        array, out, base = np.ones(1000), np.zeros(1000), np.ones(9)
        handle = ronde.allreduce_async(array, "late", ronde.Sum, out=out)
        for one in (array, out):
            for check in (True, False):
                with pytest.raises(ValueError, match="resize"):
                    one.resize(10_000_000, refcheck=check)
        view = ronde.allreduce_async(base[2:5], "view")
        with pytest.raises(ValueError, match="resize"):
            base.resize(10_000_000, refcheck=False)
        del array
    ronde.barrier()  # the others submit only now
    if ronde.rank() != 0:
        handle = ronde.allreduce_async(np.ones(1000), "late", ronde.Sum)
        view = ronde.allreduce_async(np.ones(3), "view")
    assert (handle.wait() == ronde.size()).all()
    view.wait()
    if ronde.rank() == 0:
        del handle
        out.resize(3, refcheck=False)
        assert out.tolist() == [ronde.size()] * 3


def _random_output(random_, memory, given):
    """An output made of random choices, the same on all ranks, and its places in the memory."""
    dtype = random_.choice([np.float32, np.float32, np.float32, np.float64, np.int32])
    if dtype is not np.float32:
        return np.zeros(given.shape, dtype), []
    first, step = random_.randrange(len(memory)), random_.choice([1, 1, 1, 2, -1])
    count = random_.choice([given.size, given.size, 3])
    return memory[first::step][:count], np.arange(len(memory))[first::step][:count]


def _call(name, given, out):
    """A call whose right result is its input, as all ranks have the same."""
    if name == "broadcast":
        ronde.broadcast(given, 0, out=out)
    elif name == "grouped_allreduce":
        ronde.grouped_allreduce([given], op=ronde.Max, out=[out])
    elif name == "allreduce":
        ronde.allreduce(given, op=ronde.Max, out=out)
    else:
        ronde.allreduce_async(given, op=ronde.Max, out=out).wait()


def case_random_calls_write_exactly_the_output_or_nothing():
    random_ = random.Random(35)
    accepted = 0
    for _ in range(400):
        guarded = Guarded((40,))
        memory = guarded.array
        memory[:] = np.arange(40)
        expected = memory.copy()
        start = random_.randrange(30)
        given = memory[start : start + random_.randrange(10)]
        wanted = given.copy()
        out, places = _random_output(random_, memory, given)
        name = random_.choice(["allreduce", "broadcast", "grouped_allreduce", "allreduce_async"])
        with contextlib.suppress(ronde.InvalidArgumentError):
            _call(name, given, out)
            accepted += 1
            assert out.shape == wanted.shape
            expected[places] = wanted
        assert memory.tolist() == expected.tolist(), (name, start, places)
        assert guarded.whole()
    assert 50 < accepted < 350
    assert ronde.allreduce(np.ones(2), op=ronde.Sum).tolist() == [ronde.size()] * 2
