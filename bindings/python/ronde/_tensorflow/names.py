"""Names of operations in a graph: the same on every rank and after every retracing.

Kernels of one graph start in any order, so each needs a name: the user's, or one made of the names
of the traced function and the operation. Equal names get numbers in the order of tracing. Numbers
of TensorFlow's process-wide counter are left out: they differ between ranks.
"""

from __future__ import annotations

import re
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ronde._errors import UnsupportedError

# Each process set has its own numbers, as a rank knows only its own sets.
_used: weakref.WeakKeyDictionary[Any, Counter[tuple[int, str]]] = weakref.WeakKeyDictionary()
_NUMBER = re.compile(r"_\d+(?=_|/|$)")


def function() -> Any:
    """The graph of the function being traced: the innermost, without branches and loops in it."""
    graph: Any = tf.compat.v1.get_default_graph()
    while "ControlFlowFuncGraph" in {base.__name__ for base in type(graph).__mro__}:
        graph = graph.outer_graph
    return graph


def _unique(name: str, graph: Any, set_id: int) -> str:
    used = _used.setdefault(graph, Counter())
    used[set_id, name] += 1
    number = used[set_id, name]
    return name if number == 1 else f"{name}#{number}"


def given(name: str, set_id: int) -> str:
    """The user's name for an operation, with a number if a graph has it more than once."""
    return name if tf.executing_eagerly() else _unique(name, function(), set_id)


def is_function(graph: Any) -> bool:
    """True for the graph of a function; false for one of which a session runs parts."""
    return hasattr(graph, "outer_graph")


def of_tensors(what: str, tensors: Sequence[Any]) -> str:
    """An operation's name by its input tensors, for in_graph().

    Ranks may build different graphs for sessions, which run parts of them. As in Horovod, their
    operations are named by their inputs.
    """
    if tf.executing_eagerly() or is_function(function()):
        return what
    return f"{what}.{getattr(tensors[0], 'name', '')}" if tensors else what


def in_graph(name: str, set_id: int) -> str:
    """A name for an operation that is being traced, or `name` itself in eager mode.

    The first operation in a process set has the function's name: so first operations match even if
    ranks have traced different programs, which they then detect. Sessions' graphs are not compared.
    """
    if tf.executing_eagerly():
        return name
    graph = function()
    traced = _NUMBER.sub("", getattr(graph, "name", "graph"))
    if is_function(graph) and (set_id, traced) not in _used.setdefault(graph, Counter()):
        return _unique(traced, graph, set_id)
    return _unique(f"{traced}/{name}", graph, set_id)


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
