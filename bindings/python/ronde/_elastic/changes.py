"""Changes of an elastic job's workers, and how they reach the states of scripts."""

from __future__ import annotations

import queue
from typing import Any

from ronde._membership import epochs


class HostUpdateResult:
    """Horovod's kinds of changes."""

    no_update = 0
    removed = 1
    added = 2
    mixed = 3


class WorkerNotificationManager:
    """Passes changes of the job to states. The launcher's are read without it."""

    def __init__(self) -> None:
        """Has no listeners."""
        self._listeners: list[Any] = []

    def init(self, *unused: Any, **options: Any) -> None:
        """Does nothing: the launcher's notes need no service."""

    def register_listener(self, listener: Any) -> None:
        """Passes changes to this state, too."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Any) -> None:
        """Ends that."""
        self._listeners.remove(listener)

    def handle_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Passes a change to all listeners."""
        for listener in self._listeners:
            listener.on_hosts_updated(timestamp, update_res)


notification_manager = WorkerNotificationManager()


class Changes(queue.Queue[tuple[Any, int]]):
    """Changes that the state has not acted on: (time or serial, kind)."""

    _known = 0

    def empty(self) -> bool:
        """True if there is none. Reads the launcher's notes first."""
        if epochs.available():
            serial, bits = epochs.changes()
            if serial > self._known:
                self._known = serial
                added = HostUpdateResult.added if bits & epochs.ADDED else 0
                self.put((serial, added | (1 if bits & epochs.REMOVED else 0)))
        return super().empty()
