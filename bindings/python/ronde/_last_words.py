"""This process's exit message: the exception that ends it, for the other ranks."""

import sys
import traceback
from types import TracebackType

_MOST_BYTES = 400
_words = ""


def listen() -> None:
    """From now on an exception that nobody catches is kept, before whoever prints it does so."""
    earlier = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        global _words
        _words = _told(error, trace)
        earlier(kind, error, trace)

    sys.excepthook = hook


def spoken() -> str:
    """What has ended this process, such as "ValueError: no data (train.py:33)"; else nothing."""
    return _words


def _told(error: BaseException, trace: TracebackType | None) -> str:
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    frames = traceback.extract_tb(trace)
    if frames:
        text += f" ({frames[-1].filename}:{frames[-1].lineno})"
    return text.encode(errors="replace")[:_MOST_BYTES].decode(errors="ignore")
