"""Makes the backend "ronde" of torch.distributed known as soon as torch is imported.

PyTorch 2.5 and newer call register(), the entry point "ronde" of the group torch.backends, at the
end of their own import. A group imports ronde.torch.distributed when it is made, so that programs
without one load nothing of Ronde. TORCH_DEVICE_BACKEND_AUTOLOAD=0 turns this off.
"""

from __future__ import annotations

from typing import Any

from ronde_torch_backend import _accelerate, _environment

__all__ = ["register"]


def register() -> None:
    """Registers the backend, unless ronde.torch.distributed has."""
    import torch.distributed as dist

    if not dist.is_available() or "ronde" in dist.Backend.backend_list:
        return
    dist.Backend.register_backend("ronde", _create, extended_api=True, devices=["cpu"])
    _accelerate.install()
    _environment.install()


def _create(options: Any, backend_options: Any) -> Any:
    from ronde.torch.distributed._group import create_group

    return create_group(options, backend_options)
