"""Copies of states: in place, and in memory that outlives its process."""

import resource
from collections import OrderedDict

import numpy as np
import pytest
from ronde import _core
from ronde._membership import epochs
from ronde._snapshots import copies
from ronde._snapshots.array_kinds import clone
from ronde._snapshots.copies import Copies, Part
from ronde._snapshots.nested import copied


class Live:
    """A value of which copies are taken."""

    def __init__(self, value):
        self.value = value
        self.copies = Copies([Part("own", self.take, self.put, own=True), Part("count", *COUNT)])

    def take(self, keep):
        return copied(self.value, keep)

    def put(self, value):
        self.value = copied(value)


COUNT = (lambda keep: 3, lambda value: None)


class Worker:
    """Stands for the core's."""

    worker = 7

    def __init__(self):
        self.copies, self.has_copies = _core.CommitStore(), False

    def take_copies(self):
        taken, self.copies = self.copies, _core.CommitStore()
        return taken

    def end_adoption(self):
        self.has_copies = False

    def share(self, store):
        pass


@pytest.fixture
def inherit(monkeypatch):
    """inherit(store): the next state that shares its copies adopts those of the store."""
    worker = Worker()
    monkeypatch.setattr(epochs, "member", lambda: worker)
    monkeypatch.setattr(copies, "_sharing", None)

    def give(store):
        worker.copies, worker.has_copies = store, True
        monkeypatch.setattr(copies, "_sharing", None)

    return give


def same(left, right):
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


VALUES = [
    1,
    [1, "two", None],
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.arange(6).reshape(2, 3)),
    np.arange(12)[::3],
    np.array(5, np.float16),
    np.empty((0, 3), np.int8),
    np.array(["a", None], object),
    np.array([(1, 2.0)], [("a", "i1"), ("b", "f8")]),
    OrderedDict(a=np.ones(3, np.int8), b=[np.zeros(70), {"c": np.full(2, 7)}]),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("shared", [False, True])
def test_any_value_goes_back(inherit, value, shared):
    live = Live(copied(value, clone))
    if shared:
        live.copies.share()
    live.copies.save(1)
    live.value = "lost"
    live.copies.restore()
    assert same(live.value, value)
    live.copies.restore()  # the copy is not the live value
    assert same(live.value, value)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_another_process_reads_the_copies(inherit, value):
    first = Live(copied(value, clone))
    first.copies.share()
    first.copies.save(4)
    first.copies.save(5)
    inherit(first.copies._memory)
    second = Live(None)
    second.copies.share()
    assert second.copies.adopted_steps() == (5, 4)
    second.copies.put_adopted(5, own_alone=True)
    assert same(second.value, value)
    second.copies.end_adoption(used=True)
    assert second.copies.adopted_steps() == (-1, -1)
    second.copies.save(8)
    assert second.copies._memory.steps() == [8, 5]


def test_two_copies_are_held():
    live = Live(np.zeros(1))
    for number in (1, 2, 3):
        live.value[0] = number
        live.copies.save(number)
    live.value[0] = 9
    live.copies.restore_older(2)
    assert live.value == [2]
    live.copies.restore()
    assert live.value == [2]
    live.value[0] = 5
    live.copies.save(3)
    live.copies.save(4)
    live.copies.restore_older(3)
    assert live.value == [5]


def test_arrays_may_change_their_number_and_size(inherit):
    for shared in (False, True):
        live = Live([])
        if shared:
            live.copies.share()
        for step in range(1, 20):
            live.value = [np.full(step % 5 * 1000, step), np.full(step % 3, step)][: step % 4]
            live.value += ["x" * 997 * step]
            expected = copied(live.value, clone)
            live.copies.save(step)
            live.value = None
            live.copies.restore()
            assert same(live.value, expected)
            assert len(live.copies._targets) <= 2


def test_copies_that_were_not_used_are_dropped(inherit):
    first = Live(1)
    first.copies.share()
    first.copies.save(70)
    inherit(first.copies._memory)
    second = Live(2)
    second.copies.share()
    second.copies.end_adoption(used=False)
    assert epochs.member().has_copies is False
    second.copies.save(1)
    assert second.copies._memory.steps() == [1]


def test_copies_of_another_state_are_not_adopted(inherit):
    first = Live(1)
    first.copies.parts.pop()
    first.copies.share()
    first.copies.save(7)
    inherit(first.copies._memory)
    second = Live(2)
    second.copies.share()
    assert second.copies.adopted_steps() == (-1, -1)


def test_copies_that_cannot_be_read_are_not_adopted(inherit, capfd):
    store = _core.CommitStore()
    store.begin([8, 8])[1][:] = b"nonsense"
    store.commit(3)
    inherit(store)
    live = Live(2)
    live.copies.share()
    assert live.copies.adopted_steps() == (-1, -1)
    assert "copies of a worker that died cannot be read" in capfd.readouterr().err


def test_what_cannot_be_pickled_is_kept_in_this_process_and_said_once(inherit, capfd):
    live = Live([np.arange(3), lambda: 1])
    live.copies.share()
    memory = live.copies._memory
    live.copies.save(1)
    live.copies.save(2)
    assert memory.steps() == []
    live.value = None
    live.copies.restore()
    assert live.value[0].tolist() == [0, 1, 2]
    said = capfd.readouterr().err
    assert said.count("the state cannot be pickled") == 1
    assert "copies of the state end with this process" in said


def test_without_shared_memory_copies_are_kept_in_this_process(inherit, capfd):
    live = Live(np.arange(10_000))
    live.copies.share()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        live.copies.save(1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    live.copies.save(2)
    live.value[:] = 0
    live.copies.restore()
    assert live.value.tolist() == list(range(10_000))
    assert capfd.readouterr().err.count("ulimit -f") == 1


def test_one_state_has_shared_copies(inherit):
    first, second = Live(1), Live(2)
    first.copies.share()
    first.copies.save(5)
    memory = first.copies._memory
    second.copies.share()
    assert memory.steps() == []
    first.copies.save(6)
    first.value = None
    first.copies.restore()
    assert first.value == 1


def test_replaced_parts_are_those_that_come_back():
    live = Live(np.zeros(3))
    live.copies.save(1)
    live.copies.save(2)
    live.value = np.ones(5)
    live.copies.replace(live.copies.parts[0])
    live.value[:] = 7
    live.copies.restore_older(1)
    assert live.value.tolist() == [1] * 5
    live.copies.save(2)
    assert live.copies.newest("own").tolist() == [1] * 5
