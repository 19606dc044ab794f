"""A launcher of elastic jobs of one rank, for tests in one process."""

import os
import select
import socket
import struct
import threading
import time
from typing import NamedTuple

import pytest
import ronde
from ronde import _core
from ronde._membership import epochs

READY, HOLDS, LEAVING, FINISHED, EPOCH, CHANGED, DISMISSED = range(1, 8)
NAMES = {HOLDS: "holds", LEAVING: "leaving", FINISHED: "finished"}
MOST_BYTES = 1 << 20


def text(value):
    return struct.pack("<I", len(value)) + value.encode()


def epoch_note(epoch, rank, workers, job=None):
    """workers: (number, host, holds the state), by rank."""
    fields = struct.pack("<BQi", EPOCH, epoch, rank)
    fields += text(f"fake-{os.getpid()}-{epoch}" if job is None else job) + text("ab" * 32)
    fields += text("") + text("")  # on one host: no rendezvous and no tree
    fields += text("start")
    fields += struct.pack("<I", len(workers))
    for worker, host, holds in workers:
        fields += struct.pack("<Q", worker) + text(host) + struct.pack("<B", holds)
    return fields


def dismissed_note(failed, why):
    return struct.pack("<BB", DISMISSED, failed) + text(why)


class Ready(NamedTuple):
    """What a worker tells while it waits."""

    last_epoch: int
    began: bool
    holds_state: bool
    can_resume: bool
    suspects: list
    why: str


def ready_note(message):
    *facts, count = struct.unpack_from("<QBBBI", message, 1)
    suspects = list(struct.unpack_from(f"<{count}Q", message, 16))
    return Ready(*facts, suspects, message[16 + 8 * count + 4 :].decode())


class FakeLauncher:
    """The launcher's end of worker 7. `answers`: notes for the next epochs, else one rank each."""

    def __init__(self):
        self.ready = []  # what the worker has told
        self.answers = []
        self._notes = []
        self._lock = threading.Lock()
        self.start_worker()

    def start_worker(self):
        """A worker that has told nothing yet."""
        self.ready.clear()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.member = _core.Member(theirs.detach(), 7)
        threading.Thread(target=self._serve, args=(self._socket,), daemon=True).start()

    def _serve(self, end):
        while select.select([end], [], [])[0]:
            with self._lock:
                message = end.recv(MOST_BYTES)
                if not message:
                    return
                if message[0] == READY:
                    self.ready.append(ready_note(message))
                    end.send(self._answer())
                elif message[0] in NAMES:  # else it is a copy's file, for the agent
                    self._notes.append(NAMES[message[0]])

    def _answer(self):
        if self.answers:
            return self.answers.pop(0)
        return epoch_note(len(self.ready), 0, [(7, "here", self.ready[-1].holds_state)])

    @property
    def notes(self):
        """The other notes of the worker, once all have been read."""
        while True:
            with self._lock:
                if not select.select([self._socket], [], [], 0)[0]:
                    return self._notes
            time.sleep(0.001)

    def change(self, serial, bits):
        """The workers are to change."""
        self._socket.send(struct.pack("<BQQB", CHANGED, len(self.ready), serial, bits))

    def end(self):
        """The launcher is gone."""
        self._socket.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def launcher(monkeypatch):
    """A FakeLauncher for this process, which has joined its first epoch."""
    fake = FakeLauncher()
    before = dict(os.environ)
    monkeypatch.setattr(epochs, "member", lambda: fake.member)
    ronde.init()
    yield fake
    ronde.shutdown()
    fake.end()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def alone():
    """A job of one rank without a launcher."""
    ronde.init(settings={"RONDE_RANK": 0, "RONDE_SIZE": 1})
    yield
    ronde.shutdown()
