"""Helpers for Ronde's functions while a user's function is being traced."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import keras
import tensorflow as tf

from ronde import _core
from ronde._calls.described import described

F = TypeVar("F", bound=Callable[..., Any])
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
