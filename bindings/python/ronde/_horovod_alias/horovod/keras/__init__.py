"""Makes `horovod.keras` the very module `ronde.keras`."""

import sys

import ronde.keras

sys.modules["horovod.keras.callbacks"] = ronde.keras.callbacks
sys.modules["horovod.keras.elastic"] = ronde.keras.elastic
sys.modules[__name__] = ronde.keras
