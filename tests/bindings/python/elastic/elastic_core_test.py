"""The core's functions for elastic jobs, with the launcher's end of the socket in the test."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

READY, HOLDS, LEAVING, FINISHED, EPOCH, CHANGED, DISMISSED = range(1, 8)
LIMIT_S = 480


def text(value: str) -> bytes:
    return struct.pack("<I", len(value)) + value.encode()


def epoch_note(epoch: int, rank: int, workers: list[tuple[int, str, bool]], job: str) -> bytes:
    fields = struct.pack("<BQi", EPOCH, epoch, rank)
    fields += text(job) + text("ab" * 32)
    fields += text("") + text("")  # on one host: no rendezvous and no tree
    fields += text("start")
    fields += struct.pack("<I", len(workers))
    for worker, host, holds in workers:
        fields += struct.pack("<Q", worker) + text(host) + struct.pack("<B", holds)
    return fields


@contextmanager
def worker(script: str) -> Iterator[tuple[socket.socket, subprocess.Popen[str]]]:
    """A worker that runs `script`, and its launcher's end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(LIMIT_S)
    variables = {"RONDE_ELASTIC_FD": str(theirs.fileno()), "RONDE_WORKER": "5"}
    process = subprocess.Popen(
        [sys.executable, "-c", "from ronde import _core\n" + textwrap.dedent(script)],
        env=os.environ | variables,
        pass_fds=[theirs.fileno()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    theirs.close()
    try:
        yield ours, process
    finally:
        process.kill()
        process.communicate()
        ours.close()


def output_of(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=LIMIT_S)
    return output


def test_a_worker_is_given_an_epoch_joins_it_and_is_dismissed():
    script = """
        import os, signal
        assert _core.elastic_available() and _core.elastic_worker() == 5
        part = _core.Participant()
        part.has_copies = True
        got = _core.elastic_next_epoch(part.ready())
        part.placed(got)
        print(got.epoch, got.rank, got.why, got.workers, got.hosts, got.holders)
        settings = _core.elastic_settings(got)
        assert settings["RONDE_RANK"] == "0" and settings["RONDE_SIZE"] == "1"
        assert "ab" * 32 not in str(settings)
        runtime = _core.Runtime.create(settings)
        print("size", runtime.size(), _core.elastic_changes())
        _core.elastic_holds()
        while _core.elastic_changes() == (0, 0):
            pass
        print("changed", _core.elastic_changes())
        before = signal.getsignal(signal.SIGTERM)
        leaves = _core.LeaveSignal()
        os.kill(os.getpid(), signal.SIGTERM)
        assert _core.asked_to_leave()
        del leaves
        assert signal.getsignal(signal.SIGTERM) is before
        _core.elastic_finished()
        runtime.shutdown()
        part.began = part.holds_state = True
        part.has_copies = False
        part.failed("rank 0 died", 0)
        end = _core.elastic_next_epoch(part.ready())
        print(end.why, end.failed)
    """
    with worker(script) as (launcher, process):
        ready = launcher.recv(1 << 20)
        assert ready == struct.pack("<BQBBBI", READY, 0, 0, 0, 1, 0) + text("")
        launcher.send(epoch_note(9, 0, [(5, "here", True)], f"elastic-{os.getpid()}"))
        assert launcher.recv(1 << 20) == struct.pack("<BB", HOLDS, 1)
        launcher.send(struct.pack("<BQQB", CHANGED, 9, 17, 2))
        assert launcher.recv(1 << 20) == struct.pack("<B", LEAVING) + text("SIGTERM")
        assert launcher.recv(1 << 20) == struct.pack("<BQ", FINISHED, 9)
        ready = launcher.recv(1 << 20)
        suspects = struct.pack("<IQ", 1, 5)
        assert ready == struct.pack("<BQBBB", READY, 9, 1, 1, 0) + suspects + text("rank 0 died")
        launcher.send(struct.pack("<BB", DISMISSED, 0) + text("there is no place"))
        assert output_of(process).splitlines() == [
            "9 0 start [5] ['here'] [True]",
            "size 1 (0, 0)",
            "changed (17, 2)",
            "there is no place False",
        ]
    assert process.returncode == 0


def test_the_end_of_the_launcher_ends_the_wait_with_an_error():
    script = """
        import ronde
        for call in (
            lambda: _core.elastic_next_epoch(_core.Participant().ready()),
            _core.elastic_changes,
            _core.elastic_holds,
        ):
            try:
                call()
            except ronde.UnavailableError as error:
                print(error)
    """
    with worker(script) as (launcher, process):
        launcher.recv(1 << 20)
        launcher.close()
        assert output_of(process) == "the launcher of this elastic job is gone\n" * 3


def test_ctrl_c_ends_the_wait_for_an_epoch():
    script = """
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
        try:
            _core.elastic_next_epoch(_core.Participant().ready())
        except KeyboardInterrupt:
            print("interrupted")
    """
    with worker(script) as (launcher, process):
        launcher.recv(1 << 20)
        process.send_signal(signal.SIGINT)
        assert output_of(process) == "interrupted\n"


def test_a_forked_child_is_no_worker():
    script = """
        import os
        assert _core.elastic_available()
        child = os.fork()
        if child == 0:
            os._exit(int(_core.elastic_available()) or _core.elastic_worker())
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    with worker(script) as (_, process):
        assert output_of(process) == "0\n"


def test_without_a_launcher_there_is_no_worker():
    import ronde
    from ronde import _core

    assert not _core.elastic_available()
    assert _core.elastic_worker() == 0
    with pytest.raises(ronde.NotInitializedError, match="no worker of an elastic job"):
        _core.elastic_changes()


def test_the_commit_store_keeps_two_copies_as_views():
    import numpy as np
    import ronde
    from ronde import _core

    store = _core.CommitStore()
    for step in range(4):
        for view in store.begin([40, 0, 3]):
            np.frombuffer(view, np.uint8)[:] = step
        store.commit(step)
    assert store.steps() == [3, 2]
    views = store.read(3)
    assert [bytes(view) for view in views] == [b"\x03" * 40, b"", b"\x03" * 3]
    assert views[0].readonly
    store.begin([1])
    assert store.steps() == [3]
    with pytest.raises(ronde.InvalidArgumentError, match="no copy of step 9; there is: 3"):
        store.read(9)
    del store
    assert bytes(views[2]) == b"\x03" * 3
