"""Leaving an elastic job on a signal: this worker finishes its step, then the others go on.

RONDE_LEAVE_SIGNAL names the signal: TERM (the default), USR1, or off.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ronde._errors import InvalidArgumentError
from ronde._membership import epochs

_SIGNALS = {"TERM": signal.SIGTERM, "USR1": signal.SIGUSR1, "off": None}


class _Asked:
    by = ""  # the signal's name
    process = 0  # that watches
    before: Any = signal.SIG_DFL  # the handler


_asked = _Asked()


def asked() -> bool:
    """True if this worker is to leave at its next commit."""
    return bool(_asked.by)


def chosen_signal() -> signal.Signals | None:
    """The signal by RONDE_LEAVE_SIGNAL. Raises InvalidArgumentError for other values."""
    name = os.environ.get("RONDE_LEAVE_SIGNAL", "TERM")
    if name not in _SIGNALS:
        raise InvalidArgumentError(f"RONDE_LEAVE_SIGNAL={name!r}; allowed: {', '.join(_SIGNALS)}")
    return _SIGNALS[name]


@contextmanager
def watched() -> Iterator[None]:
    """Makes the signal ask this worker to leave, while the block runs.

    Only in the main thread, where Python allows handlers, and under a launcher of elastic jobs.
    """
    number = chosen_signal()
    main = threading.current_thread() is threading.main_thread()
    if number is None or not main or not epochs.available():
        yield
        return
    _asked.process, _asked.before = os.getpid(), signal.signal(number, _on_signal)
    try:
        yield
    finally:
        signal.signal(number, _asked.before)


def _on_signal(number: int, frame: Any) -> None:
    if os.getpid() != _asked.process:  # a child that was forked is no worker
        signal.signal(number, _asked.before)
        signal.raise_signal(number)
    elif not _asked.by:
        _asked.by = signal.Signals(number).name
        epochs.core.elastic_leaving(_asked.by)
