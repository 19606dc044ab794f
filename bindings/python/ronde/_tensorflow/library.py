"""Loads the compiled operations; without them, those of the Python path."""

from __future__ import annotations

import ctypes
import functools
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from ronde import _core
from ronde._errors import UnavailableError
from ronde._tensorflow import alone, build, interrupt, python_path

# Graph ops that stay in the order of the program.
_ORDERED = {"RondeBarrier", "RondeJoin", "RondeQuery"}


@functools.cache
def library() -> Any:
    """The module of the operations' functions (ronde_allreduce, ...).

    Compiles them at the first call, see build. Where it cannot, logs why, and returns python_path.
    """
    try:
        loaded = _loaded()
    except (UnavailableError, OSError, AttributeError, tf.errors.OpError) as error:
        print(
            f"ronde: TensorFlow's operations run through Python, which is slower: {error}",
            file=sys.stderr,
            flush=True,
        )
        return python_path
    _leave_unordered(loaded.graph_ops)
    return loaded


def _loaded() -> Any:
    """The module; compiled again if the cached one is of another TensorFlow."""
    file = build.build()
    copy = build.copy_of(file)
    try:
        return _load(file)
    except (OSError, AttributeError, tf.errors.OpError):
        build.discard(file, copy)
        return _load(build.build())


def _load(file: Path) -> Any:
    loaded = tf.load_op_library(str(file))
    native = ctypes.CDLL(str(file))
    native.ronde_tensorflow_bind(ctypes.c_void_p(_core.c_api()))
    interrupt.install(native.ronde_tensorflow_interrupt)
    names = [name for name in dir(loaded) if name.startswith("ronde_")]
    functions = {n: interrupt.interruptible(getattr(loaded, n)) for n in names}
    tell, forget = native.ronde_tensorflow_tell_program, native.ronde_tensorflow_forget_program
    native.ronde_tensorflow_tell_name.argtypes = (ctypes.c_char_p,)
    tell.argtypes = (ctypes.c_int64, ctypes.c_int32, ctypes.c_char_p)
    forget.argtypes = (ctypes.c_int64,)
    return SimpleNamespace(
        is_compiled=True,
        **functions,
        graph_ops={name for name in dir(loaded) if name.startswith("Ronde")},
        programs=SimpleNamespace(tell=tell, forget=forget, name=native.ronde_tensorflow_tell_name),
        threads=alone.Teller(native.ronde_tensorflow_tell_alone, native.ronde_tensorflow_calls),
    )


def _leave_unordered(graph_ops: set[str]) -> None:
    """Excludes the collectives from tf.function's automatic control dependencies.

    They must run even if nothing uses their results, but in any order: in a chain each gradient
    would wait for the one before.
    A TensorFlow without this list chains them: correct, with less overlap.
    """
    try:
        from tensorflow.python.framework import auto_control_deps as deps

        known = deps.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS
        deps.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS = known | (graph_ops - _ORDERED)
    except (ImportError, AttributeError, TypeError):
        pass
