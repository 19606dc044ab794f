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

from elastic_launcher import (
    CHANGED,
    FINISHED,
    HOLDS,
    LEAVING,
    MOST_BYTES,
    READY,
    dismissed_note,
    epoch_note,
    text,
)

LIMIT_S = 480


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
        member = _core.Member.of_process()
        assert member.worker == 5 and member.place is None and not member.state_is_held()
        member.can_load(True)
        got = member.next_epoch()
        assert member.place.epoch == got.epoch and member.state_is_held()
        print(got.epoch, got.rank, got.why, got.workers, got.hosts)
        settings = member.settings(got)
        assert settings["RONDE_RANK"] == "0" and settings["RONDE_SIZE"] == "1"
        assert "ab" * 32 not in str(settings)
        runtime = _core.Runtime.create(settings)
        print("size", runtime.size(), member.changes())
        member.began()
        member.hold_state()
        while member.changes() == (0, 0):
            pass
        print("changed", member.changes())
        before = signal.getsignal(signal.SIGTERM)
        leaves = _core.LeaveSignal()
        os.kill(os.getpid(), signal.SIGTERM)
        assert _core.asked_to_leave()
        del leaves
        assert signal.getsignal(signal.SIGTERM) is before
        member.finish()
        runtime.shutdown()
        member.can_load(False)
        member.failed("rank 0 died", 0)
        end = member.next_epoch()
        print(end.why, end.failed)
    """
    with worker(script) as (launcher, process):
        ready = launcher.recv(MOST_BYTES)
        assert ready == struct.pack("<BQBBBI", READY, 0, 0, 0, 1, 0) + text("")
        launcher.send(epoch_note(9, 0, [(5, "here", True)], f"elastic-{os.getpid()}"))
        assert launcher.recv(MOST_BYTES) == struct.pack("<BB", HOLDS, 1)
        launcher.send(struct.pack("<BQQB", CHANGED, 9, 17, 2))
        assert launcher.recv(MOST_BYTES) == struct.pack("<B", LEAVING) + text("SIGTERM")
        assert launcher.recv(MOST_BYTES) == struct.pack("<BQ", FINISHED, 9)
        ready = launcher.recv(MOST_BYTES)
        suspects = struct.pack("<IQ", 1, 5)
        assert ready == struct.pack("<BQBBB", READY, 9, 1, 1, 0) + suspects + text("rank 0 died")
        launcher.send(dismissed_note(False, "there is no place"))
        assert output_of(process).splitlines() == [
            "9 0 start [5] ['here']",
            "size 1 (0, 0)",
            "changed (17, 2)",
            "there is no place False",
        ]
    assert process.returncode == 0


def test_the_end_of_the_launcher_ends_the_wait_with_an_error():
    script = """
        import ronde
        member = _core.Member.of_process()
        for call in (member.next_epoch, member.changes, member.hold_state):
            try:
                call()
            except ronde.UnavailableError as error:
                print(error)
    """
    with worker(script) as (launcher, process):
        launcher.recv(MOST_BYTES)
        launcher.close()
        assert output_of(process) == "the launcher of this elastic job is gone\n" * 3


def test_ctrl_c_ends_the_wait_for_an_epoch():
    script = """
        import signal
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
        try:
            _core.Member.of_process().next_epoch()
        except KeyboardInterrupt:
            print("interrupted")
    """
    with worker(script) as (launcher, process):
        launcher.recv(MOST_BYTES)
        process.send_signal(signal.SIGINT)
        assert output_of(process) == "interrupted\n"


def test_a_forked_child_is_no_worker():
    script = """
        import os
        assert _core.Member.of_process() is not None
        child = os.fork()
        if child == 0:
            os._exit(_core.Member.of_process() is not None)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    with worker(script) as (_, process):
        assert output_of(process) == "0\n"


def test_without_a_launcher_there_is_no_worker():
    from ronde import _core

    assert _core.Member.of_process() is None


def test_the_commit_store_keeps_two_copies_as_views():
    import numpy as np
    import pytest
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
