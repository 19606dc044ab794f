"""Horovod's sampler of elastic jobs: each rank gets as many indices as any other."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ronde._calls.argument_checks import check, check_has
from ronde._job.runtime import rank, size

_Sampler: Any = torch.utils.data.Sampler


class ElasticSampler(_Sampler):  # type: ignore[misc]
    """Deals the indices of a data set to ranks, and after a reset what remains of them.

    Ranks get equal numbers: some indices come twice if they do not divide evenly (see
    ronde.elastic.ExactSampler, which repeats none). Give it to the TorchState, call record_batch()
    after each batch and set_epoch() at the end of each epoch.
    """

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0) -> None:
        """dataset: of constant length. seed: the same on all ranks.

        Raises ArgumentTypeError for a data set without a length.
        """
        remedy = "; for a stream of data, give each rank its own part"
        check_has("__len__", "dataset", dataset, "a data set with a length", remedy)
        check(seed=seed)
        self.dataset = dataset
        self.shuffle, self.seed = shuffle, seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    @property
    def processed_indices(self) -> set[int]:
        """The indices that all ranks have processed in this epoch."""
        return set(self._order()[: self.processed_num])

    def set_epoch(self, epoch: int) -> None:
        """Begins this epoch: all indices, in another order. Call it when one has ended."""
        self.epoch, self.processed_num = epoch, 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Records that each rank has processed a batch of this size."""
        del batch_idx
        self.processed_num += batch_size * self.num_replicas

    def record_indices(self, indices: Sequence[int]) -> None:
        """Records that each rank has processed as many indices as these."""
        self.processed_num += len(indices) * self.num_replicas

    def get_indices(self, batch_idx: int, batch_size: int) -> list[int]:
        """The indices of a batch of this rank, counted from the last reset."""
        return self._own()[batch_idx * batch_size : (batch_idx + 1) * batch_size]

    def state_dict(self) -> dict[str, Any]:
        """The position, the same on all ranks."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes to a position and deals what remains."""
        self.epoch, self.processed_num = state_dict["epoch"], state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Deals what remains to the ranks that there are now."""
        self.num_replicas, self.rank = size(), rank()
        self.remaining_indices = self._order()[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def _order(self) -> list[int]:
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        return order

    def _own(self) -> list[int]:
        """This rank's indices. The first ones come again where the last rank has none."""
        left = self.remaining_indices
        padded = left + left[: self.total_size - len(left)]
        while left and len(padded) < self.total_size:  # fewer are left than there are ranks
            padded += left[: self.total_size - len(padded)]
        return padded[self.rank :: self.num_replicas]

    def __iter__(self) -> Iterator[int]:
        """This rank's indices, in order."""
        self.indices = self._own()
        return iter(self.indices)

    def __len__(self) -> int:
        """The number of this rank's indices."""
        return self.num_samples
