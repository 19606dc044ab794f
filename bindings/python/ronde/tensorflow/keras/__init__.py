"""Ronde for Keras, where Horovod's scripts for tf.keras look for it: the same as ronde.keras."""

from __future__ import annotations

from ronde import keras as _keras
from ronde.keras import *

__all__ = [*_keras.__all__]
