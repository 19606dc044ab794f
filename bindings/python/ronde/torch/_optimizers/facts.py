"""Names and bytes of tensors, by which ranks compare their parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import torch

from ronde._job.process_sets import ProcessSet
from ronde._training.first_step import Fact, FirstStep

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def first_step(process_set: ProcessSet) -> FirstStep:
    """The check of an optimizer's parameters, in its first step."""
    return FirstStep(process_set, "call hvd.broadcast_parameters(model.state_dict(), root_rank=0)")


def facts(tensors: Iterable[torch.Tensor], names: Mapping[torch.Tensor, str]) -> Iterator[Fact]:
    """One of each tensor. Those of classes of others have no bytes here."""
    for tensor in tensors:
        name = names.get(tensor, "added")
        if type(tensor) not in _PLAIN or tensor.layout is not torch.strided:
            label, data = f'"{name}" ({type(tensor).__name__})', None
        else:
            label = f'"{name}" ({str(tensor.dtype)[6:]}{list(tensor.shape)})'
            data = None if tensor.is_meta or tensor.is_quantized else _bytes_of(tensor)
        yield Fact(label, label, data)


def _bytes_of(tensor: torch.Tensor) -> object:
    held = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return held.reshape(-1).view(torch.uint8).numpy()
