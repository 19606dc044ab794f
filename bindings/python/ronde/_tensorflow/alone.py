"""Tells if one thread of this process submits all collectives and waits for each function it calls.

Only then is it certain that a rank submits nothing else before an operation has ended. Operations
in eager mode on one rank and in a function on another never match: they are then an error at once.
The answer is updated whenever an operation is called or traced. In doubt it is no.

TensorFlow's own threads submit while a graph runs. A thread of Python waits for each graph, but for
those of datasets, and those with Python code of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ronde import _alone


def _waits() -> bool:
    """True if TensorFlow waits for operations and runs no Python code by py_function."""
    try:
        from tensorflow.python.ops import script_ops

        functions = script_ops._py_funcs.size()
    except (ImportError, AttributeError):
        return False
    return bool(functions == 0 and tf.config.experimental.get_synchronous_execution())


def _in_dataset() -> bool:
    """True while a function of a dataset is traced: its graph runs in the background."""
    if tf.executing_eagerly():
        return False
    graph: Any = tf.compat.v1.get_default_graph()
    while graph is not None:
        if str(getattr(graph, "name", "")).startswith("Dataset_"):
            return True
        graph = getattr(graph, "outer_graph", None)
    return False


class Teller:
    """Sends changes of the answer to the kernels; tells it to waits of Python, too.

    calls: gives the number of collectives that TensorFlow waits for.
    """

    def __init__(self, tell: Callable[[int], object], calls: Callable[[], int]) -> None:
        self._tell = tell
        self._calls = calls
        self._told = False
        self._in_background = False
        _alone.ask_too(self.is_quiet)

    def look(self) -> None:
        """Notes who submits, now that an operation is called or traced."""
        self._in_background = self._in_background or _in_dataset()
        alone = self._is_alone()
        if alone != self._told:
            self._tell(alone)
            self._told = alone

    def is_quiet(self) -> bool:
        """True if no graph runs, and none can begin while the thread that asks waits."""
        return not self._in_background and _waits() and self._calls() == 0

    def _is_alone(self) -> bool:
        main = threading.main_thread().ident
        return not self._in_background and _alone.others_are_harmless(main) and _waits()
