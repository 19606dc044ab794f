"""States and samplers of ronde.torch.elastic, on one rank and on several."""

import itertools
import shutil
import subprocess
import sys
import textwrap
from unittest import mock

import pytest
import ronde
import ronde.torch as hvd
import torch
from elastic_launcher import alone, launcher  # noqa: F401  fixtures
from ronde.torch._optimizers.averaging import all_optimizers
from ronde.torch.elastic import sampler as sampler_module
from ronde.torch.elastic.state import StateHandler, get_handler_registry, set_handler_registry


def trained_state(**values):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    return hvd.elastic.TorchState(model=model, optimizer=optimizer, batch=0, **values)


def step(state):
    state.optimizer.zero_grad()
    state.model(torch.ones(2, 3)).square().sum().backward()
    state.optimizer.step()
    state.batch += 1


def tensors_of(state):
    moments = state.optimizer.state_dict()["state"]
    return [
        *(t.clone() for t in state.model.state_dict().values()),
        *(moments[i][k].clone() for i in moments for k in ("exp_avg", "exp_avg_sq")),
    ]


def same(left, right):
    return len(left) == len(right) and all(map(torch.equal, left, right))


def test_models_and_optimizers_go_back_to_the_last_commit(alone):  # noqa: F811
    state = trained_state()
    fresh = tensors_of(state)
    step(state)
    state.restore()
    assert (state.batch, same(tensors_of(state), fresh)) == (0, True)
    for _ in range(3):
        step(state)
        state.commit()
    committed = tensors_of(state)
    step(state)
    assert not same(tensors_of(state), committed)
    state.restore()
    assert (state.batch, same(tensors_of(state), committed)) == (3, True)
    step(state)  # the copies are not the live tensors
    state.restore()
    assert same(tensors_of(state), committed)


def test_commits_allocate_no_tensors(alone):  # noqa: F811
    state = trained_state()
    addresses = set()
    for number in range(6):
        step(state)
        state.commit()
        saved = state._copies.newest("handler model")
        if number > 1:
            addresses.add(saved["0.weight"].data_ptr())
    assert len(addresses) == 2


def test_an_attribute_can_be_replaced(alone):  # noqa: F811
    state = trained_state()
    other = torch.nn.Linear(1, 1)
    state.model = other
    kept = other.weight.detach().clone()
    torch.nn.init.zeros_(other.weight)
    state.restore()
    assert torch.equal(other.weight, kept)


def test_handlers_of_the_user_are_used(alone):  # noqa: F811
    calls = []

    class Handler(StateHandler):
        def save(self):
            calls.append("save")

        def restore(self):
            calls.append("restore")

        def sync(self):
            calls.append("sync")

    before = get_handler_registry()
    set_handler_registry([(complex, Handler), *before])
    try:
        state = hvd.elastic.TorchState(number=1j)
        state.sync()
        state.commit()
        state.restore()
    finally:
        set_handler_registry(before)
    assert calls == ["sync", "save", "save", "restore"]
    assert state.number == 1j
    assert state.model is None


def test_handlers_of_the_user_keep_two_copies(alone):  # noqa: F811
    class Handler(StateHandler):
        def save(self):
            self.saved = list(self.value)

        def restore(self):
            self.value[:] = self.saved

        def sync(self):
            pass

    before = get_handler_registry()
    set_handler_registry([(list, Handler), *before])
    try:
        state = hvd.elastic.TorchState(numbers=[0], step=0)
    finally:
        set_handler_registry(before)
    state.sync()
    for step in (1, 2):
        state.numbers[0] = state.step = step
        state.save()
    state.numbers[0] = state.step = 3
    state._restore_older()  # a rank has died before all had copied step 2
    assert (state.numbers, state.step) == ([1], 1)
    state.numbers[0] = state.step = 4
    state.restore()
    assert (state.numbers, state.step) == ([1], 1)
    state.numbers = other = [7]
    other[0] = 8
    state.restore()
    assert state.numbers is other
    assert other == [7]


@pytest.mark.parametrize("form", ["dcp", "ronde"])
def test_checkpoints_hold_tensors(alone, tmp_path, form):  # noqa: F811
    state = trained_state()
    state.checkpoint(tmp_path / "state", format=form)
    step(state)
    state.commit()
    state._checkpoints.wait()
    committed = tensors_of(state)
    again = trained_state()
    again.checkpoint(tmp_path / "state")
    again._checkpoints.load(again)
    assert again.batch == 1
    assert same(tensors_of(again), committed)


def test_torch_reads_checkpoints_without_ronde(alone, tmp_path):  # noqa: F811
    state = trained_state()
    state.checkpoint(tmp_path / "state")
    step(state)
    state.commit()
    state._checkpoints.wait()
    [folder] = tmp_path.glob("state.*.dcp")
    torch.save([*tensors_of(state)], tmp_path / "expected")
    script = f"""
        import sys, torch
        import torch.distributed.checkpoint as dcp
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        values = {{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "batch": -1}}
        dcp.load(values, checkpoint_id={str(folder)!r})
        assert values["batch"] == 1 and values["optimizer"]["param_groups"][0]["lr"] == 0.1
        moments = values["optimizer"]["state"]
        found = [*model.state_dict().values()]
        found += [moments[i][k] for i in moments for k in ("exp_avg", "exp_avg_sq")]
        assert all(map(torch.equal, found, torch.load({str(tmp_path / "expected")!r})))
        assert "ronde" not in sys.modules
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=480, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("damage", ["a byte", "a file", "no checksums", "another step"])
def test_damaged_folders_are_set_aside_and_old_ones_removed(alone, tmp_path, damage):  # noqa: F811
    state = trained_state()
    state.checkpoint(tmp_path / "state", keep=2)
    for _ in range(4):
        step(state)
        state.commit()
    state._checkpoints.wait()
    older, newest = sorted(tmp_path.iterdir())
    steps = [int(newest.suffixes[-2][1:]), int(older.suffixes[-2][1:])]
    [data] = newest.glob("*.distcp")
    if damage == "a byte":
        content = bytearray(data.read_bytes())
        content[len(content) // 2] ^= 1
        data.write_bytes(content)
    elif damage == "a file":
        data.unlink()
    elif damage == "no checksums":
        (newest / "ronde.json").write_text('{"sha256": {}}')
    else:
        shutil.rmtree(newest)
        shutil.copytree(older, newest)
    with pytest.warns(UserWarning, match=f"{newest.name} is damaged"):
        assert state._checkpoints.newest_step() == steps[1]
    state._checkpoints.load(state)
    assert state.batch == 3
    state.commit()  # the damaged one's name is free
    state._checkpoints.wait()
    assert state._checkpoints.newest_step() == steps[0] + 1
    assert len(list(tmp_path.iterdir())) == 3


def test_checkpoints_of_other_states_and_formats_are_refused(alone, tmp_path):  # noqa: F811
    state = trained_state()
    with pytest.raises(ValueError, match="format='zip'; allowed for this state: 'dcp', 'ronde'"):
        state.checkpoint(tmp_path / "state", format="zip")
    with pytest.raises(ValueError, match="format='dcp'; allowed for this state: 'ronde'"):
        ronde.elastic.ObjectState(step=0).checkpoint(tmp_path / "state", format="dcp")
    state.checkpoint(tmp_path / "state")
    state.commit()
    state._checkpoints.wait()
    other = hvd.elastic.TorchState(state.model, batch=0, more=1)
    other.checkpoint(tmp_path / "state")
    with pytest.raises(ValueError, match="was written by a state with other arguments"):
        other._checkpoints.load(other)


@pytest.mark.parametrize(("length", "size"), [*itertools.product((1, 2, 7, 16), (1, 2, 3, 5))])
def test_elastic_samplers_give_ranks_equal_numbers(monkeypatch, length, size):
    dealt = []
    monkeypatch.setattr(sampler_module, "size", lambda: size)
    for rank in range(size):
        monkeypatch.setattr(sampler_module, "rank", lambda rank=rank: rank)
        sampler = hvd.elastic.ElasticSampler(range(length), seed=4)
        dealt.append(list(sampler))
        assert len(sampler) == len(dealt[-1]) == -(-length // size)
        assert sampler.get_indices(0, 2) == dealt[-1][:2]
    assert {index for own in dealt for index in own} == set(range(length))


def test_horovods_modules_are_where_its_tests_patch_them(alone):  # noqa: F811
    dataset = list(range(8))
    with (
        mock.patch("ronde.torch.elastic.sampler.size", return_value=4),
        mock.patch("ronde.torch.elastic.sampler.rank", return_value=3),
    ):
        sampler = hvd.elastic.ElasticSampler(dataset, shuffle=False)
    assert (sampler.rank, sampler.num_replicas, list(sampler)) == (3, 4, [3, 7])
    state = hvd.elastic.TorchState(sampler=sampler, batch=1)
    with mock.patch(
        "ronde.torch.elastic.state.broadcast_object", side_effect=lambda o, *_: o
    ) as sent:
        state.sync()
    assert sent.call_count >= 1


def test_elastic_samplers_do_as_horovods_tests_want(alone):  # noqa: F811
    sampler = hvd.elastic.ElasticSampler(list(range(8)))
    loader = torch.utils.data.DataLoader(list(range(8)), batch_size=2, sampler=sampler)
    state = hvd.elastic.TorchState(sampler=sampler)
    state.sync()
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for number, _ in enumerate(loader):
            sampler.record_batch(number, 2)
            assert sampler.processed_num == 2 * (number + 1)
    assert len(list(loader)) == 4  # the samples come again until the epoch is set
    sampler.set_epoch(2)
    sampler.record_batch(0, 2)
    sampler.record_batch(1, 2)
    state.commit()
    sampler.record_batch(2, 2)
    state.restore()
    assert sampler.processed_num == 4
    sampler.record_batch(2, 2)
    state.commit()
    state.sync()
    assert sampler.processed_num == 6
    assert (len(sampler), len(list(loader))) == (2, 1)  # dealt anew
    sampler.set_epoch(3)
    assert len(sampler) == 8


def test_elastic_samplers_keep_their_place(alone):  # noqa: F811
    sampler = hvd.elastic.ElasticSampler(range(10), shuffle=False)
    state = hvd.elastic.TorchState(sampler=sampler)
    sampler.record_batch(0, 3)
    state.commit()
    sampler.record_batch(1, 3)
    assert sampler.processed_indices == set(range(6))
    state.restore()
    assert sampler.state_dict() == {"epoch": 0, "processed_num": 3}
    assert list(sampler) == [3, 4, 5, 6, 7, 8, 9]
    sampler.set_epoch(1)
    assert (len(sampler), sampler.processed_indices) == (10, set())


def test_after_a_reset_an_optimizer_has_nothing_in_flight(launcher):  # noqa: F811
    state = trained_state()
    state.optimizer = hvd.DistributedOptimizer(
        state.optimizer, state.model.named_parameters(), backward_passes_per_step=2
    )
    assert state.optimizer in all_optimizers

    @hvd.elastic.run
    def train(state):
        while state.batch < 3:
            for _ in range(2):
                state.model(torch.ones(2, 3)).square().sum().backward()
                if state.batch == 1 and len(launcher.ready) == 1:
                    state.optimizer._under_way = True
                    raise hvd.HorovodInternalError("dead")
            state.optimizer.step()
            state.optimizer.zero_grad()
            state.batch += 1
            state.commit()
        return state.batch

    assert train(state) == 3


SYNC = """
    import torch
    import ronde.torch as hvd
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (1 + hvd.rank()))
    if hvd.rank() == 0:
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    sampler = hvd.elastic.ElasticSampler(range(12))
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, batch=20 + hvd.rank())
    if hvd.rank() == 0:
        sampler.record_batch(0, 2)
    state.sync()
    assert state.batch == 20 and sampler.processed_num == 2 * hvd.size()
    assert optimizer.param_groups[0]["lr"] == 0.1
    values = [*model.state_dict().values(), optimizer.state_dict()["state"][0]["exp_avg"]]
    for value in values:
        assert torch.equal(value, hvd.broadcast(value, 0))
    state.batch = 0
    state.restore()
    assert state.batch == 20
    state.commit()
    print("synced")
"""


def test_sync_gives_all_ranks_the_state_of_the_first(run_job):
    status, output = run_job(SYNC, 3)
    assert status == 0, output
    assert output.count("synced") == 3


def test_a_set_that_lost_a_member_says_so(alone):  # noqa: F811
    lost = ronde.ProcessSet([0])
    lost.lost = "it was made of the workers 1, 2, not all of which are left"
    with pytest.raises(ValueError, match="is not registered; it was made of the workers 1, 2"):
        hvd.allreduce(torch.ones(1), process_set=lost)
