"""A communication hook for DistributedDataParallel that compresses gradients.

state = CompressionState(model, Compression.int8)
model.register_comm_hook(state, compression_hook)
"""

# No postponed annotations: DDP looks at those of its hooks.
from typing import Any

import torch
import torch.distributed as dist
from torch.futures import Future

from ronde._calls import reduce_ops
from ronde._calls.argument_checks import shown
from ronde._codecs import wire_of
from ronde._collectives import calls as kinds
from ronde._compression.choice import resolved, warn_of_idle
from ronde._compression.rules import checked, is_ruled
from ronde._errors import InvalidArgumentError
from ronde._training.gradients import checked_weight
from ronde.torch._optimizers.gradients import compression_of
from ronde.torch.compression import Compression
from ronde.torch.distributed._group import RondeProcessGroup
from ronde.torch.distributed._tensors import view
from ronde.torch.distributed._work import Joined, Work


class CompressionState:
    """The state of compression_hook(): the codec and the name of each gradient."""

    def __init__(
        self,
        model: torch.nn.parallel.DistributedDataParallel,
        compression: Any = Compression.fp16,
        process_group: Any = None,
    ) -> None:
        """compression: as DistributedOptimizer's, but Ronde's codecs only.

        process_group: the model's; the default one by default.
        Raises InvalidArgumentError for a group of another backend, and other compressors.
        """
        self.names = {parameter: name for name, parameter in model.module.named_parameters()}
        self.compression = compression
        group = process_group or dist.distributed_c10d._get_default_group()
        if not isinstance(group, RondeProcessGroup):
            raise InvalidArgumentError(
                "compression_hook needs a process group of the backend ronde; "
                f"this one's is {dist.get_backend(group)}"
            )
        self.group = group
        self.weight: float | None = None
        if not is_ruled(compression):
            _taken(resolved(compression))
        checked(compression)
        warn_of_idle(compression, self.names.values())
        self.wires = {p: self._wire(name, p) for p, name in self.names.items()}

    def _wire(self, name: str, parameter: torch.Tensor) -> str:
        return _taken(compression_of(name, parameter, self.compression))

    def set_weight(self, weight: float) -> None:
        """Gives this rank's gradients a weight in the average, in all backward passes from now on.

        It is the number of samples that the gradients are the mean of. The result then is the mean
        over the samples of all ranks, though batches differ. 0: the rank had none. All ranks call
        it, before backward.
        """
        self.weight = checked_weight(weight)

    def start(self, parameter: torch.Tensor, gradient: torch.Tensor) -> Work:
        """Starts averaging one gradient, in place."""
        if parameter not in self.names:
            raise InvalidArgumentError(
                "compression_hook: DDP has a parameter that its CompressionState has not; make the "
                "state of the same model"
            )
        name, wire = self.names[parameter], self.wires[parameter]
        views: list[Any] = [view(gradient)]
        return self.group._start(
            kinds.ALLREDUCE, views, views, gradient, [gradient], _OPTIONS, None,
            reduce_ops.Average, name=f"ddp.{name}", compression=wire, weight=self.weight,
        )  # fmt: skip


def _taken(compressor: Any) -> str:
    """The codec's text. Raises InvalidArgumentError for anything but a codec."""
    wire = wire_of(compressor)
    if not wire and compressor is not Compression.none:
        raise InvalidArgumentError(
            f"compression_hook takes codecs of Compression, not {shown(compressor)}"
        )
    return wire


_OPTIONS: Any = dist.AllreduceOptions()
_OPTIONS.asyncOp = True


def compression_hook(
    state: CompressionState,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> Future[torch.Tensor]:
    """Averages a bucket's gradients over ranks, each under its own name; Ronde fuses them again."""
    buffer = bucket.buffer()
    works: list[Work] = []
    begin = 0
    for parameter in bucket.parameters():
        part = buffer[begin : begin + parameter.numel()]
        begin += parameter.numel()
        works.append(state.start(parameter, part))
    joined = Joined(works, state.group._keeper)
    return joined.get_future().then(lambda _: buffer)
