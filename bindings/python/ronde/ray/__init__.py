"""Ronde jobs on a Ray cluster, with the names of `horovod.ray`.

    import ray
    from ronde.ray import RayExecutor

    ray.init(address="auto")
    executor = RayExecutor(RayExecutor.create_settings(), num_workers=4)
    executor.start()
    results = executor.run(train)
    executor.shutdown()

Each worker calls train(), in which init() joins the others. ElasticRayExecutor goes on when workers
or nodes die.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import ray as _ray  # noqa: F401
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "ronde.ray needs Ray; install it: pip install 'ronde[ray]'", name="ray"
    ) from _error

from ronde.ray._discovery import RayHostDiscovery
from ronde.ray._elastic import ElasticRayExecutor
from ronde.ray._executor import RayExecutor
from ronde.ray._settings import ElasticSettings, Settings

if TYPE_CHECKING:
    from ronde.ray._train import RondeConfig

__all__ = [
    "ElasticRayExecutor",
    "ElasticSettings",
    "RayExecutor",
    "RayHostDiscovery",
    "RondeConfig",
    "Settings",
]


def __getattr__(name: str) -> Any:
    """RondeConfig is imported when it is asked for: it needs Ray Train and PyTorch."""
    if name == "RondeConfig":
        from ronde.ray._train import RondeConfig

        return RondeConfig
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
