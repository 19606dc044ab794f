"""The workers of Ray Train as the ranks of one job."""

from __future__ import annotations

import secrets
import uuid
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.train.torch import TorchConfig

from ronde._membership import joining
from ronde.ray._places import job_environment, rank_environments
from ronde.ray._worker import enter, free_ports, here

_TorchBackend: Any = TorchConfig().backend_cls
_LEAVE_S = 10.0


@dataclass
class RondeConfig(TorchConfig):  # type: ignore[misc]
    """Makes the workers of a TorchTrainer one job: TorchTrainer(..., torch_config=RondeConfig()).

    init() has returned in each worker before the training function begins. torch_distributed: also
    join the workers by torch.distributed, for DDP and FSDP. backend: its backend; Ronde's by
    default. env_vars: RONDE_* settings of the workers.
    """

    backend: str | None = "ronde"
    torch_distributed: bool = False
    env_vars: dict[str, str] = field(default_factory=dict)

    @property
    def backend_cls(self) -> Any:
        """The class that Ray Train calls."""
        return _RondeBackend

    def to_dict(self) -> dict[str, Any]:
        """The fields that Ray exports of this configuration."""
        return {**super().to_dict(), "env_vars": sorted(self.env_vars)}


class _RondeBackend(_TorchBackend):  # type: ignore[misc]
    """Starts and ends the job when Ray Train starts and ends its workers."""

    def on_start(self, worker_group: Any, backend_config: RondeConfig) -> None:
        places = worker_group.execute(here)
        ports = worker_group.execute_single(0, free_ports, places[0].address)
        shared = {
            **job_environment(places, f"ray-train-{uuid.uuid4().hex}", *ports),
            **backend_config.env_vars,
        }
        secret = secrets.token_hex(32)
        refs = [
            worker_group.execute_single_async(rank, enter, {**own, **shared}, secret)
            for rank, own in enumerate(rank_environments(places))
        ]
        ray.get(refs)
        worker_group.execute(joining.init)
        if backend_config.torch_distributed:
            super().on_start(worker_group, backend_config)

    def on_shutdown(self, worker_group: Any, backend_config: RondeConfig) -> None:
        if backend_config.torch_distributed:
            super().on_shutdown(worker_group, backend_config)
        ray.wait(
            worker_group.execute_async(joining.shutdown),
            num_returns=len(worker_group),
            timeout=_LEAVE_S,
        )
