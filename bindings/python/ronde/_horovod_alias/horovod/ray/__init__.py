"""Makes `horovod.ray` and its modules with public names the module `ronde.ray`."""

import sys

import ronde.ray

for _name in ("runner", "elastic", "elastic_v2"):
    sys.modules[f"horovod.ray.{_name}"] = ronde.ray
sys.modules[__name__] = ronde.ray
