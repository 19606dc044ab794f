"""Static types of DistributedOptimizer's results: the wrapped class, and what wrapping adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import torch

F = TypeVar("F")

if TYPE_CHECKING:
    from typing import Protocol, overload

    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")

    class Distributed(torch.optim.Optimizer):
        """The methods that DistributedOptimizer adds to an optimizer."""

        def synchronize(self) -> None: ...
        def skip_synchronize(self) -> AbstractContextManager[None]: ...
        def set_backward_passes_per_step(self, passes: int) -> None: ...
        def set_weight(self, weight: float) -> None: ...
        def check_replicas(self, extra: Mapping[str, Any] | None = None) -> bool: ...
        # With shard=...:
        def state_dict(self, sharded: bool = False) -> dict[str, Any]: ...
        def clip_grad_norm_(
            self, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
        ) -> torch.Tensor: ...
        def wait_for_parameters(self) -> None: ...
        def memory_bytes(self) -> dict[str, int]: ...
        def __getattr__(self, name: str) -> Any: ...  # of classes that are not listed here

    class DistributedSGD(Distributed, torch.optim.SGD): ...

    class DistributedAdam(Distributed, torch.optim.Adam): ...

    class DistributedAdamW(DistributedAdam, torch.optim.AdamW): ...

    class Wraps(Protocol[P]):
        """The type of DistributedOptimizer()."""

        @overload
        def __call__(
            self, optimizer: torch.optim.SGD, /, *args: P.args, **kwargs: P.kwargs
        ) -> DistributedSGD: ...
        @overload
        def __call__(
            self, optimizer: torch.optim.AdamW, /, *args: P.args, **kwargs: P.kwargs
        ) -> DistributedAdamW: ...
        @overload
        def __call__(
            self, optimizer: torch.optim.Adam, /, *args: P.args, **kwargs: P.kwargs
        ) -> DistributedAdam: ...
        @overload
        def __call__(
            self, optimizer: torch.optim.Optimizer, /, *args: P.args, **kwargs: P.kwargs
        ) -> Any: ...
        @overload
        def __call__(self, *, optimizer: torch.optim.Optimizer, **named: Any) -> Any: ...

    def typed(function: Callable[Concatenate[torch.optim.Optimizer, P], Any]) -> Wraps[P]:
        """Gives a function's result the type of the wrapped optimizer."""
        ...

else:

    def typed(function: F) -> F:
        """The function itself."""
        return function
