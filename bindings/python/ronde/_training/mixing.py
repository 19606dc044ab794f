"""Objects of users' classes with a class of Ronde mixed in."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _mixed_class(mixin: type, base: type) -> Any:
    return type(base.__name__, (mixin, base), {"__module__": base.__module__})


def mixed(mixin: type, wrapped: Any, **attributes: Any) -> Any:
    """An object of the class of `wrapped` with `mixin` before it, and these attributes.

    It shares all others, such as state and variables, with `wrapped`.
    """
    base: Any = type(wrapped)
    made = _mixed_class(mixin, base)
    shared = made.__new__(made)
    shared.__dict__.update(wrapped.__dict__)
    shared.__dict__.update(attributes)
    return shared
