"""A launcher of elastic jobs of one rank, for tests in one process."""

import os

import pytest
import ronde
from ronde import _epochs, _leaving


class FakeLauncher:
    """Answers as the core does. `answers`: what the next epochs are, else one rank each."""

    def __init__(self):
        self.ready = []  # the arguments of elastic_next_epoch()
        self.notes = []
        self.change = (0, 0)
        self.answers = []
        self.lost = False

    def elastic_available(self):
        return True

    def elastic_next_epoch(self, began, holds_state, can_resume, suspects, why):
        self._check()
        self.ready.append((began, holds_state, can_resume, suspects, why))
        self.change = (0, 0)
        if self.answers:
            return self.answers.pop(0)
        epoch = len(self.ready)
        settings = {"RONDE_RANK": 0, "RONDE_SIZE": 1, "RONDE_JOB_ID": f"fake-{os.getpid()}-{epoch}"}
        return {
            "epoch": epoch,
            "rank": 0,
            "size": 1,
            "why": "",
            "workers": [(7, "here", holds_state)],
            "settings": settings,
        }

    def elastic_changes(self):
        self._check()
        return self.change

    def elastic_holds(self):
        self.notes.append("holds")

    def elastic_leaving(self, why):
        self.notes.append(f"leaving by {why}")

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
    monkeypatch.setattr(_epochs, "core", fake)
    monkeypatch.setattr(_epochs, "worker", _epochs._Worker())
    monkeypatch.setattr(_leaving, "_asked", _leaving._Asked())
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
