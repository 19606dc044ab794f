"""Makes `horovod.ray` and `horovod.ray.runner` the module `ronde.ray`."""

import sys

import ronde.ray

sys.modules["horovod.ray.runner"] = ronde.ray
sys.modules[__name__] = ronde.ray
