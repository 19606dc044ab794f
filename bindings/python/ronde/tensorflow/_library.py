"""Loads the compiled operations. Without them the Python path is used."""

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
from ronde.tensorflow import _alone, _build, _interrupt

# The graph ops. They must run even if nothing uses their results, but in any order: in a chain each
# gradient would wait for the one before.
_OPS = ("Allreduce", "Allgather", "Broadcast", "Reducescatter", "Alltoall")


@functools.cache
def library() -> Any:
    """The module of generated functions (ronde_allreduce, ...), or None: use the Python path.

    Compiles them at the first call, see _build. Logs once why it cannot.
    """
    try:
        loaded = _loaded()
    except (UnavailableError, OSError, AttributeError, tf.errors.OpError) as error:
        print(
            f"ronde: TensorFlow's operations run through Python, which is slower: {error}",
            file=sys.stderr,
            flush=True,
        )
        return None
    _leave_unordered()
    return loaded


def _loaded() -> Any:
    """The module; compiled again if the cached one is of another TensorFlow."""
    file = _build.build()
    copy = _build.copy_of(file)
    try:
        return _load(file)
    except (OSError, AttributeError, tf.errors.OpError):
        _build.discard(file, copy)
        return _load(_build.build())


def _load(file: Path) -> Any:
    loaded = tf.load_op_library(str(file))
    native = ctypes.CDLL(str(file))
    native.ronde_tensorflow_bind(ctypes.c_void_p(_core.c_api()))
    _interrupt.install(native.ronde_tensorflow_interrupt)
    names = [name for name in dir(loaded) if name.startswith("ronde_")]
    functions = {n: _interrupt.interruptible(getattr(loaded, n)) for n in names}
    tell, forget = native.ronde_tensorflow_tell_program, native.ronde_tensorflow_forget_program
    native.ronde_tensorflow_tell_name.argtypes = (ctypes.c_char_p,)
    tell.argtypes = (ctypes.c_int64, ctypes.c_int32, ctypes.c_char_p)
    forget.argtypes = (ctypes.c_int64,)
    return SimpleNamespace(
        **functions,
        programs=SimpleNamespace(tell=tell, forget=forget, name=native.ronde_tensorflow_tell_name),
        threads=_alone.Teller(native.ronde_tensorflow_tell_alone, native.ronde_tensorflow_calls),
    )


def _leave_unordered() -> None:
    """Excludes the collectives from tf.function's automatic control dependencies.

    A TensorFlow without this list chains them: correct, with less overlap.
    """
    try:
        from tensorflow.python.framework import auto_control_deps as deps

        known = deps.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS
        deps.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS = known | {f"Ronde{op}" for op in _OPS}
    except (ImportError, AttributeError, TypeError):
        pass
