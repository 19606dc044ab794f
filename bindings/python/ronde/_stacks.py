"""The lines at which this process's Python threads are, for dumps and `ronde doctor --job`."""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType

from ronde._job.exit_message import is_of_ronde, is_of_user

_MOST_THREADS = 64
_MOST_FRAMES = 64
_IMPORT_MACHINERY = "<frozen importlib"


def lines() -> list[tuple[int, str, str, list[str]]]:
    """(kernel's thread id, name, line, frames) of each Python thread, the main thread first.

    Frames read "train.py:12 in main", innermost first, without those of this package and of
    `import`. The line is the innermost outside libraries. The core calls this in a thread of its
    own, which is left out.
    """
    known = {thread.ident: thread for thread in threading.enumerate()}
    main, own = threading.main_thread().ident, threading.get_ident()
    found = []
    for ident, frame in sorted(sys._current_frames().items(), key=lambda item: item[0] != main):
        frames = [] if ident == own else _frames_from(frame)
        if not frames:
            continue
        thread = known.get(ident)
        tid = (thread.native_id if thread is not None else None) or 0
        name = thread.name if thread is not None else ""
        texts = [_described(inner) for inner in frames[:_MOST_FRAMES]]
        found.append((tid, _clean(name), _described(_line_of(frames)), texts))
    return found[:_MOST_THREADS]


def _frames_from(innermost: FrameType) -> list[FrameType]:
    frames = []
    frame: FrameType | None = innermost
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_of_ronde(file) and not file.startswith(_IMPORT_MACHINERY):
            frames.append(frame)
        frame = frame.f_back
    return frames


def _line_of(frames: list[FrameType]) -> FrameType:
    return next((f for f in frames if is_of_user(f.f_code.co_filename)), frames[0])


def _described(frame: FrameType) -> str:
    code = frame.f_code
    number = frame.f_lineno or code.co_firstlineno
    return _clean(f"{_shortened(code.co_filename)}:{number} in {code.co_name}")


def _shortened(file: str) -> str:
    """The path from the longest folder of sys.path that has the file."""
    folders = (str(entry).rstrip(os.sep) + os.sep for entry in sys.path if entry)
    return file[max((len(folder) for folder in folders if file.startswith(folder)), default=0) :]


def _clean(text: str) -> str:
    """The text without what UTF-8 cannot encode."""
    return text.encode(errors="replace").decode()
