"""This process's exit message: the exception that ends it, for the other ranks."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType

_MOST_BYTES = 400
_message = ""


def record_uncaught() -> None:
    """From now on keeps the text of an exception that nothing catches, before it is printed."""
    earlier = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        global _message
        _message = _described(error, trace)
        earlier(kind, error, trace)

    sys.excepthook = hook


def exit_message() -> str:
    """The exception that ends this process: "ValueError: no data (train.py:33)"; empty if none."""
    return _message


def _described(error: BaseException, trace: TracebackType | None) -> str:
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    frames = traceback.extract_tb(trace)
    if frames:
        text += f" ({frames[-1].filename}:{frames[-1].lineno})"
    return text.encode(errors="replace")[:_MOST_BYTES].decode(errors="ignore")
