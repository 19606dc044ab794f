"""destroy_process_group() and init_process_group() again in one process, after failures."""

import signal

import pytest

pytest.importorskip("ronde.torch.distributed", exc_type=ImportError)
from distributed_ranks import run_ranks
from jobs import free_ports


def test_all_ranks_a_hundred_times_without_a_leak(tmp_path):
    results = run_ranks(
        """
        def usage():
            return [len(os.listdir(f"/proc/self/{what}")) for what in ("task", "fd")]

        seen = []
        for n in range(100):
            # A file: a client of torch's TCPStore waits for 5 s in one of 25 connections.
            store = dist.FileStore(sys.argv[4], size)
            dist.init_process_group("ronde", store=store, rank=rank, world_size=size)
            other = dist.new_group(list(range(size)))
            assert added() == added(other) == size
            if rank != n % size:
                assert add_until_failure().rank == n % size
            elif n % 2:
                dist.group.WORLD.abort()
            before = time.monotonic()
            dist.destroy_process_group()
            assert time.monotonic() - before < 3
            assert not ronde.is_initialized()
            seen.append(usage())
        assert all(a <= b for a, b in zip(seen[-1], seen[9])), seen
        say("all went")
        """,
        3,
        tmp_path,
        [str(tmp_path / "store")],
    )
    assert all(status == 0 and "all went" in output for status, output in results), results


def test_one_address_again_at_once(tmp_path):
    results = run_ranks(
        """
        for n in range(8):
            start()  # the others may be faster than rank 0, which has the store
            assert added() == size
            time.sleep(0.05 * (rank == n % 2))
            dist.destroy_process_group()
        say("all went")
        """,
        2,
        tmp_path,
    )
    assert all(status == 0 and "all went" in output for status, output in results), results


def test_survivors_alone_through_a_new_store(tmp_path):
    port = free_ports(2)
    results = run_ranks(
        """
        start()
        for address in sys.argv[4:]:
            assert added() == size
            if rank == 0:
                die()
            assert add_until_failure().rank == 0
            dist.destroy_process_group()
            rank, size = rank - 1, size - 1
            start(rank, size, address)
        assert added() == size
        say("went on with", size)
        """,
        4,
        tmp_path,
        [f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 1}"],
    )
    assert [status for status, _ in results] == [-signal.SIGKILL, -signal.SIGKILL, 0, 0], results
    assert all("went on with 2" in output for _, output in results[2:]), results
