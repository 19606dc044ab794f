"""Tells if a waiting thread is the only one of its process that may submit collectives.

Only then is it certain that nothing is submitted before its wait ends. The core asks when a wait
has taken long. In doubt the answer is no.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType

from ronde import _core

# Threads that submit nothing: progress bars, a DataLoader's queues, checkpoints, dumps.
_HARMLESS = {
    "multiprocessing.queues",
    "ronde._elastic.checkpoint",
    "ronde._stacks",
    "ronde._tensorflow.interrupt",
    "torch.utils.data._utils.pin_memory",
    "tqdm._monitor",
}


# Frameworks that use the C API have threads of their own. Each tells if they submit nothing now.
_quiet: list[Callable[[], bool]] = []


def ask_too(is_quiet: Callable[[], bool]) -> None:
    """Has submits_alone() ask a framework that uses the C API, too.

    is_quiet: True if the framework submits nothing until the thread that asks goes on.
    """
    _quiet.append(is_quiet)


def submits_alone() -> bool:
    """True if only the calling thread could submit an operation."""
    if _core.c_api_given() and not _quiet:
        return False
    own = threading.get_ident()
    return others_are_harmless(own) and all(is_quiet() for is_quiet in _quiet)


def others_are_harmless(own: int | None) -> bool:
    """True if no Python thread but `own` could submit an operation."""
    return all(
        ident == own or _is_harmless(frame) for ident, frame in sys._current_frames().items()
    )


def _is_harmless(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") in _HARMLESS:
            return True
        frame = frame.f_back
    return False
