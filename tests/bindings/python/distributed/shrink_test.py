"""dist.shrink_group(): survivors go on as a smaller group in the same processes."""

import signal

import pytest

pytest.importorskip("ronde.torch.distributed", exc_type=ImportError)
from distributed_ranks import run_ranks
from ronde._rendezvous import peers as _peers
from ronde.torch.distributed import _membership

KILLED = -signal.SIGKILL


def check(results, statuses):
    outputs = [output for _, output in results]
    assert [status for status, _ in results] == statuses, "\n".join(outputs)
    return outputs


def test_ranks_die_one_after_the_other_the_stores_own_among_them(tmp_path):
    results = run_ranks(
        """
        start()
        for victim in (2, 0, 1):
            world = dist.group.WORLD
            other = dist.new_group(list(range(dist.get_world_size())))
            before = dist.get_world_size()
            assert added() == added(other) == before
            if dist.get_rank() == victim:
                die()
            assert add_until_failure().rank == victim
            made = dist.shrink_group([victim])
            assert made is dist.group.WORLD is not world
            assert (ronde.size(), dist.get_world_size()) == (before - 1, before - 1)
            assert dist.get_process_group_ranks(made) == list(range(before - 1))
            assert added() == before - 1
            with pytest.raises(ronde.NotInitializedError, match="was destroyed"):
                world.allreduce([torch.ones(1)])
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
        model(torch.ones(1, 2)).sum().backward()
        dist.destroy_process_group()
        assert not ronde.is_initialized()
        say("left with", size - 3)
        """,
        5,
        tmp_path,
    )
    # Ranks 2, 0, and the second of those that are left then: 1, 3 and 4.
    outputs = check(results, [KILLED, 0, KILLED, KILLED, 0])
    for rank in (1, 4):
        assert "left with 2" in outputs[rank]


SECOND_DEATH = """
def shrink_without(first, second):
    if dist.get_rank() == first:
        die()
    assert add_until_failure().rank == first
    if dist.get_rank() == second:
        time.sleep(0.5)  # the others wait for this rank
        die()
    begin = time.monotonic()
    with pytest.raises(ronde.RankFailure, match=f"rank {second} has ended too") as raised:
        dist.shrink_group([first])
    assert raised.value.rank == second
    assert time.monotonic() - begin < 20  # the start's limit is 30 s
    before = dist.get_world_size()
    dist.shrink_group([first, second])
    assert added() == dist.get_world_size() == before - 2

start()
assert added() == size
first, second = map(int, sys.argv[4:6])
shrink_without(first, second)
if second == 0:
    shrink_without(1, 2)  # without a store
say("went on")
os._exit(0)
"""


@pytest.mark.parametrize(("first", "second"), [(1, 2), (3, 0)])
def test_a_second_rank_dies_while_the_others_shrink(tmp_path, first, second):
    results = run_ranks(SECOND_DEATH, 5, tmp_path, [str(first), str(second)])
    left = [rank for rank in range(5) if rank not in (first, second)]
    left = left[:1] if second == 0 else left  # two of three more have died
    outputs = check(results, [0 if rank in left else KILLED for rank in range(5)])
    assert all("went on" in outputs[rank] for rank in left)


def test_living_ranks_and_smaller_groups(tmp_path):
    results = run_ranks(
        """
        start()
        trio = dist.new_group([0, 1, 2])
        if rank < 2:
            pair = dist.shrink_group([2], group=trio)  # rank 2 lives
            assert dist.get_process_group_ranks(pair) == [0, 1]
            assert added(pair) == 2
        assert added() == 4
        if rank == 3:
            with pytest.raises(ronde.UnavailableError, match=r"ranks \\[3\\] may not go on"):
                dist.shrink_group([0, 1, 2])
            assert added() == 4  # all is as before
            time.sleep(1)
        else:
            assert added() == 4
            with pytest.raises(ronde.InvalidArgumentError, match="no pg_options"):
                dist.shrink_group([3], pg_options=object())
            dist.shrink_group([3])
            assert added() == 3
            both = dist.new_group([0, 2])
            assert added() == 3
            if rank == 1:
                die()
            add_until_failure()
            if rank == 2:
                die()
            time.sleep(0.5)
            with pytest.raises(ronde.RankFailure, match="rank 2 has ended too"):
                dist.shrink_group([1])
            alone = dist.shrink_group([1], group=both)  # of the failed job
            assert added(alone) == 1
            with pytest.raises(ronde.UnsupportedError, match="is in another one"):
                dist.shrink_group([1, 2])
        say("went on")
        os._exit(0)
        """,
        4,
        tmp_path,
    )
    outputs = check(results, [0, KILLED, KILLED, 0])
    assert "went on" in outputs[0]
    assert "went on" in outputs[3]


def test_ranks_of_another_host_meet_at_the_new_rank_0(monkeypatch):
    monkeypatch.setenv("RONDE_RENDEZVOUS", "127.0.0.1:29400")
    assert _peers.Peer.me().address == "127.0.0.1"
    for address, place in (("10.0.0.7", "10.0.0.7:29400"), ("fd00::7", "[fd00::7]:29400")):
        moved = _peers.Peer.from_fields({**_peers.Peer.me().fields(), "address": address})
        assert _membership.moved_rendezvous(moved, "127.0.0.1:29400") == place


def test_survivors_keep_what_compression_has_left_over(tmp_path):
    results = run_ranks(
        """
        import ronde.torch as hvd

        start()
        torch.manual_seed(rank)
        hvd.allreduce(torch.randn(100, 80), name="g", compression=hvd.Compression.int4)
        before = hvd.Compression.state_dict()["residuals"]
        assert added() == 3
        if rank == 1:
            die()
        add_until_failure()
        dist.shrink_group([1])
        after = hvd.Compression.state_dict()["residuals"]
        assert before.keys() == after.keys() == {(0, "g")}
        assert torch.equal(before[0, "g"][1], after[0, "g"][1])
        assert before[0, "g"][0] == after[0, "g"][0] == 1
        assert added() == 2
        dist.destroy_process_group()
        say("kept")
        """,
        3,
        tmp_path,
    )
    outputs = check(results, [0, KILLED, 0])
    assert "kept" in outputs[0]
    assert "kept" in outputs[2]
