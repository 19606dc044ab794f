"""A place of its own for the jobs: nothing of theirs mixes with other processes of the machine.

Own namespaces for mounts, network and IPC, with an empty /dev/shm and /tmp, so that what a job
leaves behind can be counted exactly; orphans come to this process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Set
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET, CLONE_NEWIPC = 0x20000, 0x10000000, 0x40000000, 0x8000000
PR_SET_CHILD_SUBREAPER = 36
libc = ctypes.CDLL(None, use_errno=True)


def _unshare(flags: int) -> bool:
    return libc.unshare(flags) == 0


def _unshare_all() -> bool:
    flags = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC
    if _unshare(flags):
        return True
    user, group = os.getuid(), os.getgid()
    if not _unshare(flags | CLONE_NEWUSER):
        return False
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    return True


def call(*command: str) -> bool:
    """Runs a command quietly; whether it succeeded."""
    with contextlib.suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


def _forget_paths_in(folder: Path) -> None:
    """Drops the variables that name a path there: PyTorch makes its cache directory anew."""
    for name, value in list(os.environ.items()):
        if folder in Path(value).parents:
            del os.environ[name]


class Sandbox:
    """Entered once, by a process with one thread."""

    def __init__(self, keep: Path) -> None:
        """`keep` must stay visible: where it lies in /tmp, /tmp is not replaced."""
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.counted: list[Path] = []
        self.isolated = _unshare_all()
        if not self.isolated:
            return
        call("mount", "--make-rprivate", "/")
        call("ip", "link", "set", "lo", "up")
        for folder in (Path("/dev/shm"), Path("/tmp")):
            if folder in keep.resolve().parents:
                continue
            if call("mount", "-t", "tmpfs", "none", str(folder)):
                self.counted.append(folder)
                _forget_paths_in(folder)

    def leftovers(self) -> list[str]:
        """Processes, files and abstract sockets that are there though no job runs."""
        found = [f"process {pid} {self._command(pid)}" for pid in self.descendants()]
        found += [str(path) for folder in self.counted for path in folder.iterdir()]
        if self.isolated:
            lines = Path("/proc/net/unix").read_text().splitlines()[1:]
            found += [f"socket {line.split()[-1]}" for line in lines if "@" in line]
        return found

    @staticmethod
    def descendants() -> list[int]:
        """Processes below this one, the zombies of foreign parents included."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        parents: dict[int, int] = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                text = (entry / "stat").read_text()
                parents[int(entry.name)] = int(text.rpartition(")")[2].split()[1])
        found = {os.getpid()}
        while True:
            more = {pid for pid, parent in parents.items() if parent in found} - found
            if not more:
                return sorted(found - {os.getpid()})
            found |= more

    @staticmethod
    def _command(pid: int) -> str:
        with contextlib.suppress(OSError):
            return (Path("/proc") / str(pid) / "comm").read_text().strip()
        return "?"

    def sweep(self, spared: Set[int] = frozenset()) -> None:
        """Removes all leftovers but these processes, so that the next run starts clean."""
        for pid in set(self.descendants()) - spared:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for folder in self.counted:
            call("find", str(folder), "-mindepth", "1", "-delete")
