"""Names of operations in a graph: the same on every rank and after every retracing.

Kernels of one graph start in any order, so each needs a name. It is made of the traced function's
name and what the operation is, and a number where that is not unique, in the order of tracing.
Numbers that TensorFlow draws from a counter of the process are left out: they differ between ranks.
"""

from __future__ import annotations

import re
import weakref
from collections import Counter
from typing import Any

import tensorflow as tf

from ronde._errors import UnsupportedError

_used: weakref.WeakKeyDictionary[Any, Counter[str]] = weakref.WeakKeyDictionary()
_NUMBER = re.compile(r"_\d+(?=_|/|$)")


def _root(graph: Any) -> Any:
    """The outermost function being traced."""
    while isinstance(getattr(graph, "outer_graph", None), type(graph)):
        graph = graph.outer_graph
    return graph


def in_graph(name: str) -> str:
    """A name for an operation that is being traced, or `name` itself in eager mode."""
    if tf.executing_eagerly():
        return name
    graph = tf.compat.v1.get_default_graph()
    root = _root(graph)
    wanted = f"{_NUMBER.sub('', getattr(root, 'name', 'graph'))}/{name}"
    used = _used.setdefault(root, Counter())
    used[wanted] += 1
    return wanted if used[wanted] == 1 else f"{wanted}#{used[wanted]}"


def check_compilable() -> None:
    """Raises UnsupportedError, at trace time, inside a function that XLA is to compile."""
    if tf.executing_eagerly():
        return
    graph: Any = tf.compat.v1.get_default_graph()
    while graph is not None:
        context = getattr(graph, "_get_control_flow_context", lambda: None)()
        while context is not None:
            if type(context).__name__ == "XLAControlFlowContext":
                raise UnsupportedError(
                    "XLA cannot compile collectives: set jit_compile=False in tf.function() "
                    "(or in model.compile())"
                )
            context = context.outer_context
        graph = getattr(graph, "outer_graph", None)
