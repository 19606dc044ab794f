"""Ronde as a backend of torch.distributed, for tensors in host memory.

    import ronde.torch.distributed
    torch.distributed.init_process_group("ronde")

DDP, FSDP, DTensor and all other users of torch.distributed then run over Ronde. The job may be
started by torchrun, `ronde run`, mpirun, srun or torch.multiprocessing.spawn. Errors are Ronde's
typed ones. MismatchError names both calls if ranks disagree. RankFailure names the rank that died.
StalledError names the ranks that did not call an operation within the group's timeout.
"""

from __future__ import annotations

import warnings as _warnings

import torch as _torch
import typing_extensions as _typing_extensions
from ronde_torch_backend import _environment

from ronde import _core
from ronde._rendezvous import store as _store  # noqa: F401  first: it refuses older versions
from ronde.torch.distributed._barrier import monitored_barrier
from ronde.torch.distributed._compression import CompressionState, compression_hook
from ronde.torch.distributed._fsdp import compress_fsdp
from ronde.torch.distributed._group import RondeProcessGroup, create_group

# Torch may have registered the backend by itself: see ronde_torch_backend.
if "ronde" not in _torch.distributed.Backend.backend_list:
    _torch.distributed.Backend.register_backend(
        "ronde", create_group, extended_api=True, devices=["cpu"]
    )
_environment.install()
for _module in (_typing_extensions, _warnings):  # torch marks functions as deprecated by them
    _core.skip_frames_of(str(_module.__file__))

__all__ = [
    "CompressionState",
    "RondeProcessGroup",
    "compress_fsdp",
    "compression_hook",
    "monitored_barrier",
]
