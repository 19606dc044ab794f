"""States and samplers of elastic jobs, on one rank."""

import itertools
import threading
from collections import deque
from copy import copy

import numpy as np
import pytest
import ronde
from elastic_launcher import alone, launcher  # noqa: F401  fixtures
from ronde import _core, _samplers
from ronde._elastic import agreement
from ronde._snapshots import copy_memory
from ronde.elastic import ArrayState, ExactSampler, ObjectState

pytestmark = pytest.mark.usefixtures("alone")


def test_objects_go_back_to_the_last_commit_with_what_they_contain():
    state = ObjectState(step=1, losses=[1.0], table={"a": np.zeros(2)})
    state.step, state.table["a"][0] = 2, 5
    state.losses.append(0.5)
    state.restore()
    assert (state.step, state.losses) == (1, [1.0])
    assert state.table["a"][0] == 0
    state.losses.append(0.25)
    state.commit()
    state.losses.clear()
    state.restore()
    assert state.losses == [1.0, 0.25]


def test_containers_and_arrays_are_set_in_place():
    losses, table, seen = [1.0], {"a": np.zeros(2)}, deque([1], maxlen=2)
    state = ObjectState(losses=losses, table=table, seen=seen, same=losses)
    array = table["a"]
    for change in (state.restore, state.sync):
        losses.append(0.5)
        table["b"], array[0] = 3, 7
        seen.extend([2, 3])
        change()
        assert state.losses is losses
        assert state.table is table
        assert state.seen is seen
        assert table["a"] is array
        assert state.same is not None
    assert (losses, table["b"], array[0], seen.maxlen) == ([1.0, 0.5], 3, 7, 2)


def test_sync_sends_values_as_they_are_and_saves_them():
    state = ObjectState(step=1)
    state.step = 2
    state.sync()
    assert state.step == 2
    state.step = 3
    state.restore()
    assert state.step == 2


def test_commits_write_arrays_in_place_of_the_older_copy():
    weights = np.arange(4.0)
    state = ArrayState(weights=weights, step=0)
    state.commit()
    held = {id(state._copies.newest("arrays")["weights"])}
    state.commit()
    held.add(id(state._copies.newest("arrays")["weights"]))
    for step in range(4):
        weights += 1
        state.step = step
        state.commit()
        assert id(state._copies.newest("arrays")["weights"]) in held
    committed = weights.copy()
    weights[:] = 0
    state.restore()
    assert state.weights is weights
    np.testing.assert_array_equal(weights, committed)
    state.weights = np.ones(4)
    assert weights.tolist() == [1, 1, 1, 1]


def test_arrays_that_cannot_be_written_in_place_are_refused():
    with pytest.raises(ValueError, match="weights: a writable array in C order"):
        ArrayState(weights=np.zeros((2, 3)).T)


def test_an_error_within_a_commit_leaves_the_last_one_whole(monkeypatch):
    state = ArrayState(weights=np.zeros(2), step=0)
    state.commit()
    state.step = 1
    state.commit()

    def broken(filling):
        raise KeyboardInterrupt

    state.step = 2
    state.weights[:] = 2
    monkeypatch.setattr(copy_memory.Filling, "copy", broken)
    with pytest.raises(KeyboardInterrupt):
        state.commit()
    state.restore()
    assert state.step == 1
    assert state.weights.tolist() == [0, 0]


def test_own_attributes_are_not_sent_and_stay_with_their_rank(monkeypatch):
    state = ArrayState(
        weights=np.zeros(2), history=np.zeros(2), notes=[], step=0, own=("history", "notes")
    )
    state.history[:], state.notes, state.step = 3, ["mine"], 1
    state.commit()
    state.history[:], state.notes = 4, ["lost"]
    state.restore()
    assert (state.history.tolist(), state.notes) == ([3, 3], ["mine"])
    sent = []
    monkeypatch.setattr(state, "_bcast_object", lambda value: sent.append(value) or value)
    state.sync()
    assert sent == [{"step": 1}]


def test_own_names_arguments_alone():
    with pytest.raises(ValueError, match=r"own='steps': 'steps' is no argument; allowed: step"):
        ObjectState(step=0, own="steps")


def numbered(state):
    """The state at step 3, of which step 2 is the newest that all ranks have copied."""
    for step in (1, 2, 3):
        before = copy(state._progress)
        state.step = step
        state.save()
    state._progress.copied_since(before)
    return state


def restored_beside(state, other, launcher, monkeypatch):  # noqa: F811
    """choose() of the restored state beside a rank with these facts."""
    theirs = np.frombuffer(other.encoded(), np.uint8)
    gathered = lambda mine, name: np.concatenate([mine, theirs])  # noqa: E731
    monkeypatch.setattr(agreement.on_arrays, "allgather", gathered)
    monkeypatch.setattr(agreement, "size", lambda: 2)
    launcher.member.hold_state()
    state.restore()
    return agreement.choose(state, True, False)


def holder(step):
    return _core.Progress(step).facts(holds_state=True, alike=True, restored=True)


@pytest.mark.parametrize(
    ("other", "restored"), [(holder(2), 2), (holder(3), 3), (_core.StartFacts(), 2)]
)
def test_the_newest_step_that_all_have_copied_is_restored(launcher, monkeypatch, other, restored):  # noqa: F811
    state = numbered(ObjectState(step=0))
    restored_beside(state, other, launcher, monkeypatch)
    assert (state.step, state._progress.step) == (restored, restored)


class OwnSync(ObjectState):
    """Sends more than Ronde's states do."""

    def sync(self):
        super().sync()


@pytest.mark.parametrize(
    ("kind", "options", "sends"),
    [
        (ObjectState, {}, False),
        (ArrayState, {}, False),
        (OwnSync, {}, True),
        (ObjectState, {"redundancy": 1}, True),
    ],
)
def test_ranks_that_all_restored_one_step_send_nothing(launcher, monkeypatch, kind, options, sends):  # noqa: F811
    state = numbered(kind(step=0, **options))
    assert restored_beside(state, holder(3), launcher, monkeypatch) == sends


# Samplers.


@pytest.fixture
def ranks(monkeypatch):
    """ranks(n): samplers made from now on are those of n ranks; sets which by ranks.of."""

    class Ranks:
        size, rank = 1, 0

        def make(self, size, **options):
            made = []
            self.size = size
            for self.rank in range(size):
                made.append(ExactSampler(**options))
            return made

        def load(self, states):
            made = []
            self.size = len(states)
            for self.rank, (sampler, state) in enumerate(states):
                sampler.load_state_dict(state)
                made.append(sampler)
            return made

    given = Ranks()
    monkeypatch.setattr(_samplers, "size", lambda: given.size)
    monkeypatch.setattr(_samplers, "rank", lambda: given.rank)
    return given


@pytest.mark.parametrize(("length", "size"), [*itertools.product((0, 1, 7, 12), (1, 2, 3, 5))])
def test_exact_samplers_deal_each_index_once(ranks, length, size):
    samplers = ranks.make(size, data=length)
    dealt = [index for sampler in samplers for index in sampler]
    assert sorted(dealt) == list(range(length))
    assert [len(sampler) for sampler in samplers] == [len(list(sampler)) for sampler in samplers]


@pytest.mark.parametrize("sizes", [(4, 3, 2), (1, 4), (3, 5, 1, 2)])
def test_exact_samplers_deal_what_remains_after_each_reset(ranks, sizes):
    batch = 3
    samplers = ranks.make(sizes[0], data=100, seed=3)
    done, state = [], samplers[0].state_dict()
    for size in sizes:
        samplers = [*samplers, *ranks.make(size, data=100, seed=3)][:size]
        samplers = ranks.load([(sampler, state) for sampler in samplers])
        for sampler in samplers:
            own = list(sampler)
            for number in range(2):
                done += own[number * batch : (number + 1) * batch]
                sampler.record_batch(number, batch)
        states = [sampler.state_dict() for sampler in samplers]
        assert all(one == states[0] for one in states)
        state = states[0]
    samplers = ranks.load([(samplers[0], state)])
    done += list(samplers[0])
    assert sorted(done) == list(range(100))


def test_exact_samplers_refuse_other_numbers():
    with pytest.raises(ValueError, match="data=-1; allowed"):
        ExactSampler(-1)
    with pytest.raises(ValueError, match="batch_size=0; allowed"):
        ExactSampler(5).record_batch(0, 0)


def test_states_keep_the_positions_of_samplers():
    sampler = ExactSampler([1, 2, 3, 4], shuffle=False)
    state = ObjectState(sampler=sampler, step=0)
    sampler.record_batch(0, 2)
    state.commit()
    sampler.record_batch(1, 2)
    state.restore()
    assert sampler.state_dict() == {"epoch": 0, "processed_num": 2}
    state.on_reset()
    assert list(sampler) == [2, 3]
    sampler.set_epoch(1)
    assert len(sampler) == 4


# Checkpoints.


def test_checkpoints_rotate_and_load(tmp_path):
    path = tmp_path / "folder" / "state"
    state = ArrayState(weights=np.zeros(3), step=0)
    state.checkpoint(path, every=2, keep=2)
    for step in range(1, 9):
        state.step = step
        state.weights[:] = step
        state.commit()
    state._checkpoints.wait()
    assert len(list(path.parent.iterdir())) == 2
    again = ArrayState(weights=np.zeros(3), step=0)
    again.checkpoint(path)
    again._checkpoints.load(again)
    assert again.step in (7, 8)
    assert again.weights.tolist() == [again.step] * 3
    assert not [t for t in threading.enumerate() if t.name == "ronde-checkpoint"]


def test_a_checkpoint_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    state = ObjectState(step=0)
    state.checkpoint(tmp_path / "file" / "state")
    state.commit()
    with pytest.warns(UserWarning, match="cannot write the checkpoint"):
        state._checkpoints.wait()


def test_checkpoints_refuse_other_numbers(tmp_path):
    with pytest.raises(ValueError, match="every=0; allowed: whole numbers from 1"):
        ObjectState(step=0).checkpoint(tmp_path / "state", every=0)


def test_a_job_that_starts_takes_the_newest_checkpoint(launcher, tmp_path):  # noqa: F811
    state = ObjectState(step=0)
    state.checkpoint(tmp_path / "state")

    @ronde.elastic.run
    def train(state):
        state.step += 1
        state.commit()
        return state.step

    assert train(state) == 1
    state._checkpoints.wait()
    ronde.shutdown()
    launcher.start_worker()
    again = ObjectState(step=0)
    again.checkpoint(tmp_path / "state")
    ronde.init()
    assert train(again) == 2
    assert launcher.ready[0].can_resume
