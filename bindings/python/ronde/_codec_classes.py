"""The codecs of the core's registry as classes: Compression.int8, Compression.topk, ...

The package has their types in _codec_classes.pyi, which its build writes from the same registry.
"""

from __future__ import annotations

from typing import Any

from ronde import _core
from ronde._codecs import AllreduceCompressor, CastCompressor, class_named, codec_class


class _Names(type):
    def __getattr__(cls, name: str) -> Any:
        """Raises AttributeError with the names of the codecs."""
        names = ", ".join(row["name"] for row in _core.codecs())
        raise AttributeError(f"{cls.__name__} has no {name!r}; codecs: none, {names}")


class Codecs(metaclass=_Names):
    """The codecs by their names."""


for _row in _core.codecs():
    _base = CastCompressor if _row["cast"] else AllreduceCompressor
    setattr(Codecs, _row["name"], codec_class(_row, _base, __name__))


def __getattr__(name: str) -> Any:
    """The classes by their own names, as pickle looks for them."""
    return class_named(name, Codecs)
