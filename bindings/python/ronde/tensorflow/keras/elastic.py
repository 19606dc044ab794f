"""The same as ronde.keras.elastic, at the place where Horovod scripts for tf.keras look."""

from __future__ import annotations

from ronde.keras import elastic as _elastic
from ronde.keras.elastic import *

__all__ = [*_elastic.__all__]
