"""Tells if a waiting thread is the only one of its process that may submit collectives.

Only then is it certain that nothing is submitted before its wait ends. The core asks when a wait
has taken long. In doubt the answer is no.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType

from ronde import _core

# Threads that submit nothing: progress bars, a DataLoader's queues, checkpoints, dumps.
_HARMLESS = {
    "multiprocessing.queues",
    "ronde._checkpoint",
    "ronde._stacks",
    "torch.utils.data._utils.pin_memory",
    "tqdm._monitor",
}


def submits_alone() -> bool:
    """True if only the calling thread could submit an operation."""
    if _core.c_api_given():  # TensorFlow's threads are not Python's
        return False
    own = threading.get_ident()
    return all(
        ident == own or _is_harmless(frame) for ident, frame in sys._current_frames().items()
    )


def _is_harmless(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") in _HARMLESS:
            return True
        frame = frame.f_back
    return False
