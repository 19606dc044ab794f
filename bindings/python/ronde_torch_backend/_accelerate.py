"""Lets Hugging Face Accelerate take the backend "ronde".

Accelerate knows the backends of processors by a list of its own and refuses others, also those that
torch.distributed has. This adds one to it, when Accelerate is imported.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from typing import Any

_MODULE = "accelerate.state"


def install() -> None:
    """Adds the backend to Accelerate now, or when it is imported."""
    if hasattr(sys.modules.get(_MODULE), "PartialState"):
        _add_backend(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds accelerate.state as the usual finders do, once, and adds the backend to it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The module's spec; None for all other modules."""
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader: Any = spec and spec.loader
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                _add_backend(module)

            loader.exec_module = exec_module
        return spec


def _add_backend(state: Any) -> None:
    """Makes PartialState take "ronde", where it has the method that chooses a backend."""
    original = getattr(state.PartialState, "_prepare_backend", None)
    if original is None:
        return

    @functools.wraps(original)
    def prepare(
        self: Any, cpu: bool = False, sagemaker_dp: Any = False, backend: str | None = None
    ) -> tuple[Any, Any]:
        chosen, kind = original(self, cpu, sagemaker_dp, None if backend == "ronde" else backend)
        if backend != "ronde" or chosen is None:
            return chosen, kind
        if kind is not state.DistributedType.MULTI_CPU:
            raise ValueError(
                'the backend "ronde" serves tensors in host memory: write Accelerator(cpu=True, '
                'kwargs_handlers=[InitProcessGroupKwargs(backend="ronde")])'
            )
        return "ronde", kind

    state.PartialState._prepare_backend = prepare
