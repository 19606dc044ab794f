"""Starting threads as Horovod's scripts do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def in_thread(
    target: Callable[..., Any],
    args: tuple[Any, ...] = (),
    name: str | None = None,
    daemon: bool = True,
    silent: bool = False,
) -> threading.Thread:
    """Runs a function in a new thread; `silent` hides what it raises."""

    def quiet(*arguments: Any) -> None:
        try:
            target(*arguments)
        except Exception:
            if not silent:
                raise

    thread = threading.Thread(target=quiet, args=args, name=name, daemon=daemon)
    thread.start()
    return thread
