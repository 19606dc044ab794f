"""What hanging processes are doing: the stacks of all their threads."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path


def _by_kernel(pid: int) -> str:
    text = ""
    for task in sorted(Path(f"/proc/{pid}/task").iterdir()):
        for name in ("comm", "wchan", "syscall", "stack"):
            with contextlib.suppress(OSError):
                text += f"{task.name} {name}: {(task / name).read_text().strip()}\n"
    return text


def stacks(pid: int) -> str:
    """All threads of a process, by gdb where there is one, else as the kernel sees them."""
    if shutil.which("gdb") is None:
        return _by_kernel(pid)
    command = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all backtrace 24"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(
            command, capture_output=True, text=True, timeout=480, check=False
        ).stdout
    return _by_kernel(pid)
