"""How ranks agree on a job through a store that remembers earlier jobs."""

import dataclasses
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest
import ronde

pytest.importorskip("ronde.torch.distributed", exc_type=ImportError)
import torch.distributed as dist
from ronde._rendezvous import peers as _peers
from ronde._rendezvous import secret as _secret
from ronde._rendezvous import store as _rendezvous
from ronde._rendezvous.peers import Peer
from ronde._rendezvous.store import Rendezvous, _Log
from ronde.torch.distributed import _membership


@pytest.fixture(params=["hash", "file", "tcp"])
def store(request, tmp_path):
    if request.param == "hash":
        return dist.HashStore()
    if request.param == "file":
        return dist.FileStore(str(tmp_path / "store"), 8)
    return dist.TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=60))


class Rank(threading.Thread):
    """One rank that meets the others, in a thread."""

    def __init__(self, store, rank, size=2, limit_s=10.0, judge=None, watch=None, **about):
        super().__init__(daemon=True)
        store = store.clone() if isinstance(store, dist.TCPStore) else store
        me = dataclasses.replace(Peer.me(), **about)
        self.rendezvous = Rendezvous(store, "test", rank, size, me, limit_s, limit_s, watch)
        self.judge = judge
        self.agreed = self.error = None
        self.start()

    def run(self):
        try:
            self.agreed = self.rendezvous.agree(self.judge)
        except ronde.Error as error:
            self.error = error

    def job(self):
        self.join(20)
        assert self.agreed is not None, self.error
        return self.agreed.job

    def failure(self):
        self.join(20)
        assert self.error is not None, self.agreed
        return self.error


def wait_for(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def dead_process():
    """What a process that has ended said of itself."""
    code = "from ronde._rendezvous.peers import Peer; print(Peer.me().fields())"
    fields = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=480)
    return Peer.from_fields(eval(fields.splitlines()[-1]))


def test_ranks_agree_again_and_again_in_one_store(store):
    jobs = []
    for _ in range(5):
        ranks = [Rank(store, rank, 3) for rank in (2, 1, 0)]
        names = {rank.job() for rank in ranks}
        assert len(names) == 1
        assert [peer.nonce for peer in ranks[0].agreed.peers] == [
            rank.rendezvous.me.nonce for rank in reversed(ranks)
        ]
        jobs += names
    assert len(set(jobs)) == 5


def test_other_sizes_do_not_meet_in_one_store(store):
    two, three = ([Rank(store, rank, size) for rank in range(size)] for size in (2, 3))
    assert len({rank.job() for rank in two} | {rank.job() for rank in three}) == 2


def test_a_single_rank_meets_itself():
    assert Rank(dist.HashStore(), 0, 1).job()


def test_a_job_of_an_earlier_attempt_is_not_believed(store):
    old = [Rank(store, rank) for rank in range(2)]
    earlier = old[0].job()
    late = Rank(store, 1)
    time.sleep(0.2)  # it sees the earlier job alone
    assert late.is_alive()
    first = Rank(store, 0)
    assert late.job() == first.job() != earlier


def test_an_offer_of_a_rank_0_that_ended_is_replaced(store):
    _Log(store, "ronde/test/2").append({"offer": "gone", "peer": Peer.me().fields()})
    follower = Rank(store, 1)
    leader = Rank(store, 0)
    assert follower.job() == leader.job() != "gone"


def test_an_earlier_rank_0_that_still_waits_is_told_that_it_was_replaced(store):
    log = _Log(store, "ronde/test/2")
    old = Rank(store, 0)
    wait_for(lambda: log.has(0))
    new = Rank(store, 0)
    wait_for(lambda: log.has(1))
    follower = Rank(store, 1)
    assert follower.job() == new.job()
    assert isinstance(old.failure(), ronde.AbortedError)
    assert "another process has come as rank 0 of 2" in str(old.failure())


def test_an_earlier_rank_1_of_the_same_agent_does_not_take_the_new_ones_place(store):
    old = Rank(store, 1, group="0", attempt="4")
    leader = Rank(store, 0, group="0", attempt="5")
    log = _Log(store, "ronde/test/2")
    wait_for(lambda: log.has(0) and store.check([f"ronde/{log.read(0)['offer']}/1"]))
    time.sleep(0.2)  # the leader sees it
    assert leader.is_alive()
    new = Rank(store, 1, group="0", attempt="5")
    assert new.job() == leader.job()
    assert "another process has come as rank 1" in str(old.failure())


def test_agents_that_count_different_restarts_agree(store):
    ranks = [Rank(store, rank, group=str(rank), attempt=str(3 * rank)) for rank in range(2)]
    assert ranks[0].job() == ranks[1].job()


def test_missing_ranks_are_named_on_all_that_came(store):
    ranks = [Rank(store, rank, 4, limit_s=1.0) for rank in (0, 2)]
    for rank in ranks:
        assert isinstance(rank.failure(), ronde.TimeoutError)
        assert "ranks 1, 3 of 4 have not come within 1 s" in str(rank.failure())


def test_a_missing_rank_0_is_named():
    error = Rank(dist.HashStore(), 1, limit_s=0.2).failure()
    assert "rank 0 has not come within 0.2 s" in str(error)


def test_a_rank_that_ended_after_it_came_is_named_at_once():
    store = dist.HashStore()
    gone = dead_process()  # before the leader, whose time would pass meanwhile
    leader = Rank(store, 0, 4, limit_s=15)  # rank 3 never comes
    offer = _Log(store, "ronde/test/4")
    wait_for(lambda: offer.has(0))
    store.set(f"ronde/{offer.read(0)['offer']}/2", _rendezvous.json.dumps(gone.fields()))
    follower = Rank(store, 1, 4, limit_s=15)
    for rank in (leader, follower):
        assert isinstance(rank.failure(), ronde.RankFailure)
        assert f"rank 2 ended while the job started (pid {gone.pid}" in str(rank.failure())


def test_a_rank_0_that_ended_is_named_if_none_follows():
    store = dist.HashStore()
    gone = dead_process()
    _Log(store, "ronde/test/2").append({"offer": "gone", "peer": gone.fields()})
    follower = Rank(store, 1)
    follower.rendezvous.limit_s = 0.2
    error = follower.failure()
    assert isinstance(error, ronde.RankFailure)
    assert (error.rank, error.pid) == (0, gone.pid)


def test_a_judgement_of_rank_0_is_told_to_all(store):
    ranks = [Rank(store, rank, judge=lambda peers: "no majority") for rank in range(2)]
    for rank in ranks:
        assert isinstance(rank.failure(), ronde.UnavailableError)
        assert str(rank.failure()) == "no majority"


def test_the_log_finds_its_end():
    log = _Log(dist.HashStore(), "log")
    for length in range(40):
        assert log.length() == length
        assert log.append({"n": length}) == length
    assert not log.put(7, {"n": -1})
    assert log.read(7) == {"n": 7}


def test_a_death_is_proven_on_the_own_host_alone():
    me = Peer.me()
    assert not me.is_dead(me.pids)
    assert dataclasses.replace(me, started=me.started + 1).is_dead(
        me.pids
    )  # its pid was used again
    gone = dead_process()
    assert gone.is_dead(me.pids)
    assert not gone.is_dead("another host")
    child = subprocess.Popen(["true"])
    while "Z" not in (stat := _peers.Path(f"/proc/{child.pid}/stat").read_text()).split()[2]:
        time.sleep(0.01)
    started = int(stat.rpartition(")")[2].split()[19])
    unreaped = dataclasses.replace(me, pid=child.pid, started=started)
    assert unreaped.is_dead(me.pids)
    child.wait()


@pytest.mark.parametrize(
    ("agents", "restarts", "scope"), [(None, "3", "3"), ("1", "3", "3"), ("2", "3", "agents")]
)
def test_the_scope_is_what_all_ranks_of_an_attempt_know(monkeypatch, agents, restarts, scope):
    monkeypatch.delenv("GROUP_WORLD_SIZE", raising=False)
    if agents:
        monkeypatch.setenv("GROUP_WORLD_SIZE", agents)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", restarts)
    assert _rendezvous.attempt_scope() == scope


def test_a_worker_whose_agent_has_ended_does_not_join(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    _peers.refuse_orphan()
    monkeypatch.setattr(_peers, "_PARENT", 1 << 30)
    with pytest.raises(ronde.UnavailableError, match="torchrun's agent that started this process"):
        _membership.enter(dist.HashStore(), 0, 1, timedelta(seconds=5))
    monkeypatch.delenv("TORCHELASTIC_RUN_ID")
    _peers.refuse_orphan()


def test_a_process_enters_and_leaves_a_job_of_its_own_again(monkeypatch):
    monkeypatch.delenv("RONDE_SIZE", raising=False)
    store = dist.HashStore()
    for _ in range(3):
        first = _membership.enter(store, 0, 1, timedelta(seconds=5))
        assert _membership.enter(store, 0, 1, timedelta(seconds=5)) is first
        first.leave()
        assert first.is_current()
        first.leave()
        assert not first.is_current()
        with pytest.raises(ronde.NotInitializedError, match="has left"):
            first.runtime()


def test_a_death_that_one_rank_can_prove_ends_the_meeting_on_all(store):
    def prove():
        raise Peer.me().failure(7, "rank {} has ended too {}")

    ranks = [Rank(store, 0, 3, watch=lambda: None), Rank(store, 1, 3, watch=prove)]
    for rank in ranks:  # rank 2 does not come
        failure = rank.failure()
        assert type(failure) is ronde.RankFailure
        assert (failure.rank, failure.pid) == (7, Peer.me().pid)
        assert "rank 7 has ended too (pid " in str(failure)


def test_different_secrets_are_an_error_on_both_sides(store):
    marks = {}
    for rank in (1, 0):
        about = {"has_secret": True, "secret_mark": str(rank), "host": f"n{rank} boot net"}
        marks[rank] = Rank(store, rank, **about)
    why = "rank 0 on n0 and rank 1 on n1 have different secrets: RONDE_SECRET_FILE must hold the"
    for rank in marks.values():
        assert why in str(rank.failure())
        assert type(rank.failure()) is ronde.InvalidArgumentError


def test_a_mark_tells_secrets_apart_and_not_what_they_are(tmp_path):
    one, same, other = (tmp_path / name for name in ("one", "same", "other"))
    one.write_text("5a" * 32)
    same.write_text("5a" * 32 + "\n")
    other.write_text("5b" * 32)
    chosen = {"RONDE_SECRET_FILE": str(one)}
    mark = Peer.me(chosen=chosen).secret_mark
    assert mark == _secret.mark_of(str(same)) != _secret.mark_of(str(other))
    assert mark not in one.read_text()
    assert _secret.mark_of(str(tmp_path / "none")) == Peer.me().secret_mark == ""


def test_processes_that_this_one_starts_find_its_secret_and_its_path_tells_nothing():
    kept = _secret.SecretFile()
    path = kept.keep("5a" * 32)
    # subprocess closes all descriptors.
    read = subprocess.run(["cat", path], capture_output=True, text=True, check=True)
    assert read.stdout == "5a" * 32
    assert "5a" not in path


def test_a_rank_that_ends_during_the_start_is_named_at_once():
    process = subprocess.Popen(["sleep", "1000"])
    peer = dataclasses.replace(
        Peer.me(), pid=process.pid, started=_peers._start_time(process.pid), nonce="other"
    )
    timer = threading.Timer(0.3, process.kill)
    timer.start()
    name, peers = f"torch-{process.pid}", [Peer.me(), peer]
    begin = time.monotonic()
    with pytest.raises(ronde.RankFailure, match="rank 1 ended while the job started") as raised:
        _membership.replace(_membership.Membership(), name, peers, 0, 30.0)
    assert raised.value.rank == 1
    assert time.monotonic() - begin < 20
    timer.join()
    process.wait()
