"""Helpers for Ronde's functions while a user's function is being traced."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import keras
import tensorflow as tf

from ronde import _core
from ronde._calls.described import described
from ronde._errors import Error
from ronde._tensorflow.errors import mark
from ronde._training.first_step import FirstStep, fact

F = TypeVar("F", bound=Callable[..., Any])
Named = Sequence[tuple[str, tf.Variable]]
_checks: weakref.WeakSet[Any] = weakref.WeakSet()
_LIBRARIES = tuple(
    os.path.dirname(os.path.dirname(os.path.abspath(file))) + os.sep + name + os.sep
    for file, name in (
        (tf.__file__, "tensorflow"),
        (keras.__file__, "keras"),
        (os.path.dirname(__file__), "ronde"),
    )
)


def as_written(function: F) -> F:
    """Keeps AutoGraph from rewriting a function of Ronde; adds the arguments to its help()."""
    return cast(F, tf.autograph.experimental.do_not_convert(described(function)))


def call_site() -> str:
    """ "file:line" of the user's code, also where AutoGraph runs a rewritten copy of it."""
    if tf.executing_eagerly():
        return _core.call_site()
    try:
        from tensorflow.python.util import tf_stack

        frames = reversed(list(tf_stack.extract_stack()))
    except (ImportError, AttributeError):
        return _core.call_site()
    for frame in frames:
        if not frame.filename.startswith(_LIBRARIES):
            return f"{frame.filename}:{frame.lineno}"
    return ""


def count_checks() -> int:
    """Number of the Python functions that graphs have for look_at_first_step().

    Each runs once, before the operations of its step.
    """
    return len(_checks)


def look_at_first_step(first: FirstStep, variables: Named) -> None:
    """Checks in the second step that the variables are alike on all ranks.

    In a function that is being traced it adds the check to the graph. In graphs of sessions it does
    nothing.
    """
    if not first.pending or not variables:
        return
    if tf.executing_eagerly():
        first.check(lambda: (fact(name, variable.numpy()) for name, variable in variables))
    elif tf.inside_function() and first.is_wanted():
        _add_check(first, variables)


def _add_check(first: FirstStep, variables: Named) -> None:
    names = [name for name, _ in variables]

    def check(*values: Any) -> None:
        try:
            while first.pending:
                first.check(lambda: (fact(n, v.numpy()) for n, v in zip(names, values)))
        except Error as error:
            raise mark(error) from None

    _checks.add(check)

    def read_and_check() -> Any:
        # Read here alone: a value that is held elsewhere makes the optimizer copy the variable.
        with tf.control_dependencies([tf.py_function(check, [v for _, v in variables], [])]):
            return tf.constant(True)

    # Every graph of the step counts its runs here.
    if first.runs is None:
        with tf.init_scope():
            first.runs = tf.Variable(0, trainable=False, dtype=tf.int64)
    tf.cond(first.runs.assign_add(1) == 2, read_and_check, lambda: tf.constant(False))
