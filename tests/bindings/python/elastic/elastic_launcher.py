"""A launcher of elastic jobs of one rank, for tests in one process."""

import os

import pytest
import ronde
from ronde import _core
from ronde._membership import epochs


class FakeLauncher:
    """Answers as the core does. `answers`: what the next epochs are, else one rank each."""

    def __init__(self):
        self.ready = []  # what the worker has told
        self.notes = []
        self.change = (0, 0)
        self.answers = []
        self.lost = False

    def elastic_available(self):
        return True

    def elastic_next_epoch(self, ready):
        self._check()
        self.ready.append(ready)
        self.change = (0, 0)
        if self.answers:
            return self.answers.pop(0)
        return _core.EpochNote(len(self.ready), 0, [(7, "here", ready.holds_state)])

    def elastic_settings(self, place):
        job = f"fake-{os.getpid()}-{place.epoch}"
        size = str(len(place.workers))
        return {"RONDE_RANK": str(place.rank), "RONDE_SIZE": size, "RONDE_JOB_ID": job}

    def elastic_changes(self):
        self._check()
        return self.change

    def elastic_holds(self):
        self.notes.append("holds")

    def elastic_finished(self):
        self.notes.append("finished")

    def _check(self):
        if self.lost:
            raise ronde.UnavailableError("the socket has ended")


@pytest.fixture
def launcher(monkeypatch):
    """A FakeLauncher for this process, which has joined its first epoch."""
    fake = FakeLauncher()
    before = dict(os.environ)
    monkeypatch.setattr(epochs, "core", fake)
    monkeypatch.setattr(epochs, "worker", epochs._Worker())
    ronde.init()
    yield fake
    ronde.shutdown()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def alone():
    """A job of one rank without a launcher."""
    ronde.init(settings={"RONDE_RANK": 0, "RONDE_SIZE": 1})
    yield
    ronde.shutdown()
