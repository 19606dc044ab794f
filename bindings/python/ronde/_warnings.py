"""Warnings that name the user's line."""

from __future__ import annotations

import sys
import warnings


def warn(text: str) -> None:
    """Warns as if the innermost caller outside of this package did."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == "ronde" or module.startswith("ronde.")
