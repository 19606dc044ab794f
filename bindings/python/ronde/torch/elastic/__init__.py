"""Elastic jobs for PyTorch, with the names of `horovod.torch.elastic`."""

from __future__ import annotations

from ronde.elastic import ExactSampler, run
from ronde.torch.elastic import sampler, state
from ronde.torch.elastic.sampler import ElasticSampler
from ronde.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "ExactSampler", "TorchState", "run", "sampler", "state"]
