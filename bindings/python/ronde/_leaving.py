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

from ronde import _epochs
from ronde._errors import InvalidArgumentError

_SIGNALS = {"TERM": signal.SIGTERM, "USR1": signal.SIGUSR1, "off": None}


class _Asked:
    by = ""  # the signal's name


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
    if number is None or not main or not _epochs.available():
        yield
        return
    before = signal.signal(number, _on_signal)
    try:
        yield
    finally:
        signal.signal(number, before)


def _on_signal(number: int, frame: Any) -> None:
    if not _asked.by:
        _asked.by = signal.Signals(number).name
        _epochs.core.elastic_leaving(_asked.by)
