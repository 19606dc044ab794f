"""Tells if one thread of this process submits all collectives and waits for each function it calls.

Only then is it certain that a rank submits nothing else before an operation has ended. Operations
in eager mode on one rank and in a function on another never match: they are then an error at once.
The answer is updated whenever an operation is called or traced. In doubt it is no.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import tensorflow as tf

from ronde.tensorflow import _interrupt


def _waits() -> bool:
    """True if TensorFlow waits for operations and runs no Python code by py_function."""
    try:
        from tensorflow.python.ops import script_ops

        functions = script_ops._py_funcs.size()
    except (ImportError, AttributeError):
        return False
    return bool(functions == 0 and tf.config.experimental.get_synchronous_execution())


def _is_alone() -> bool:
    threads = set(sys._current_frames())
    threads.discard(_interrupt.thread_id())
    return threads == {threading.main_thread().ident} and _waits()


class Teller:
    """Sends changes of the answer to the kernels."""

    def __init__(self, tell: Callable[[int], object]) -> None:
        self._tell = tell
        self._told = False

    def look(self) -> None:
        alone = _is_alone()
        if alone != self._told:
            self._tell(alone)
            self._told = alone
