"""The exception that ends this process: its traceback here, and its message to other ranks."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from types import TracebackType

from ronde._errors import InvalidArgumentError

_MOST_BYTES = 400
_CHOICES = ("short", "full")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = tuple(
    sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_message = ""
_recording = False


def record_uncaught() -> None:
    """From now on keeps the text of an exception that nothing catches, before it is printed.

    Its traceback is printed without frames of this package, unless RONDE_TRACEBACKS is "full".
    Raises InvalidArgumentError for other values than "short" and "full". Again: a no-op.
    """
    global _recording
    if _recording:
        return
    earlier = sys.excepthook
    choice = os.environ.get("RONDE_TRACEBACKS", "short")
    if choice not in _CHOICES:
        raise InvalidArgumentError(f"RONDE_TRACEBACKS={choice!r}; allowed: {', '.join(_CHOICES)}")

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        global _message
        _message = described(error)
        if choice == "short":
            trace = _hide_frames(trace)
            _hide_frames_of_earlier(error)
        earlier(kind, error, trace)

    sys.excepthook = hook
    _recording = True


def exit_message() -> str:
    """The exception that ends this process: "ValueError: no data (train.py:33)"; empty if none."""
    return _message


def described(error: BaseException) -> str:
    """The exception and the user's line that raised it: "ValueError: no data (train.py:33)"."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    frames = traceback.extract_tb(error.__traceback__)
    if frames:
        frame = next((f for f in reversed(frames) if is_of_user(f.filename)), frames[-1])
        text += f" ({frame.filename}:{frame.lineno})"
    return text.encode(errors="replace")[:_MOST_BYTES].decode(errors="ignore")


def is_of_ronde(file: str) -> bool:
    """True for a file of this package."""
    return file.startswith(_PACKAGE)


def is_of_user(file: str) -> bool:
    """True for a file that belongs neither to this package nor to an installed one."""
    return not file.startswith((_PACKAGE, *_LIBRARIES, "<frozen"))


def _hide_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without frames of this package; as it is if there are no others."""
    kept = []
    step = trace
    while step is not None:
        if not is_of_ronde(step.tb_frame.f_code.co_filename):
            kept.append(step)
        step = step.tb_next
    shorter = None
    for step in reversed(kept):
        shorter = TracebackType(shorter, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return shorter or trace


def _hide_frames_of_earlier(error: BaseException) -> None:
    """Does the same for the exceptions that led to this one."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        current.__traceback__ = _hide_frames(current.__traceback__)
        current = current.__cause__ or current.__context__
