"""Horovod's exceptions of elastic jobs, under their names."""

from __future__ import annotations

from ronde._errors import Error as HorovodInternalError

__all__ = [
    "HorovodInternalError",
    "HorovodVersionMismatchError",
    "HostsUpdatedInterrupt",
    "get_version_mismatch_message",
]


class HostsUpdatedInterrupt(RuntimeError):
    """Workers wait to join the job, or are to leave it: its ranks are dealt anew.

    All ranks raise it from the same commit() or check_host_updates(). Nothing is restored.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        """skip_sync: workers only leave, so the others' states stay equal."""
        super().__init__("the workers of the job are to change")
        self.skip_sync = skip_sync


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    """The text of HorovodVersionMismatchError."""
    return f"{name} has version {version}, but {installed_version} was expected"


class HorovodVersionMismatchError(ImportError):
    """A framework's version is not the one that an extension was built for."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        """installed_version: of the framework when the extension was built."""
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name, self.version, self.installed_version = name, version, installed_version
