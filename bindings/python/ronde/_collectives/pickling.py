"""Objects as bytes: by pickle, and by cloudpickle where pickle cannot and it is installed."""

from __future__ import annotations

import importlib
import importlib.util
import io
import pickle
from collections.abc import Callable
from typing import Any

from ronde._errors import InvalidArgumentError

Persistent = Callable[[Any], Any]  # from an object to what is pickled in its place, or None


def cloudpickle() -> Any:
    """The module; None if it is not installed."""
    found = importlib.util.find_spec("cloudpickle") is not None
    return importlib.import_module("cloudpickle") if found else None


def pickled(obj: Any, persistent: Persistent | None = None) -> bytes:
    """The object's pickle. Raises InvalidArgumentError, naming its type, if it has none.

    Only what pickle refuses is left to cloudpickle (functions without a name, local classes, those
    of notebooks): it sends a class itself, which then is not the receiver's class.
    """
    try:
        return _dumped(pickle.Pickler, obj, persistent)
    except Exception as error:  # the kinds of errors depend on the object
        first = error
    further = cloudpickle()
    if further is None:
        raise _unfit(obj, first, "; cloudpickle can pickle lambdas and local classes: install it")
    try:
        return _dumped(further.Pickler, obj, persistent)
    except Exception as error:
        raise _unfit(obj, error, "") from error


def unpickled(data: Any, persistent: Persistent | None = None) -> Any:
    """The object. Raises InvalidArgumentError where this process cannot read it."""
    unpickler = _Unpickler(io.BytesIO(data))
    unpickler.persistent = persistent
    try:
        return unpickler.load()
    except (AttributeError, ImportError) as error:
        raise InvalidArgumentError(
            f"an object of another rank needs something that is not here: {error}; it must be in a "
            "module that all ranks can import"
        ) from error


def _dumped(base: Any, obj: Any, persistent: Persistent | None) -> bytes:
    file = io.BytesIO()
    kind = base if persistent is None else _with_ids(base, persistent)
    kind(file, protocol=5).dump(obj)
    return file.getvalue()


def _with_ids(base: Any, persistent: Persistent) -> Any:
    """The pickler's class, which asks `persistent` for each object: that takes time."""

    class Pickler(base):  # type: ignore[misc]
        def persistent_id(self, one: Any) -> Any:
            return persistent(one)

    return Pickler


def _unfit(obj: Any, error: Exception, remedy: str) -> InvalidArgumentError:
    kind = f"{type(obj).__module__}.{type(obj).__qualname__}".replace("builtins.", "")
    why = f"{type(error).__name__}: {error}"
    return InvalidArgumentError(f"the object cannot be pickled: it is a {kind}; {why}{remedy}")


class _Unpickler(pickle.Unpickler):
    persistent: Persistent | None

    def persistent_load(self, key: Any) -> Any:
        assert self.persistent is not None
        return self.persistent(key)
