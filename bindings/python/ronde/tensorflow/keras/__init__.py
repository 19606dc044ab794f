"""The same as ronde.keras, at the place where Horovod scripts for tf.keras look."""

from __future__ import annotations

from ronde import keras as _keras
from ronde.keras import *

__all__ = [*_keras.__all__]
