"""The same as ronde.keras.elastic, at the place where Horovod scripts for tf.keras look."""

from __future__ import annotations

from ronde.keras.elastic import *
