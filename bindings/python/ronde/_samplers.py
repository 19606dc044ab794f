"""ExactSampler: deals the indices of a data set to the ranks of an elastic job."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sized
from typing import Any

from ronde._calls.argument_checks import check, shown
from ronde._errors import ArgumentTypeError, InvalidArgumentError
from ronde._job.runtime import rank, size


class ExactSampler:
    """Deals each index of an epoch to exactly one rank: none twice, none left out.

    Give it to a state, and to torch's DataLoader as `sampler`. Call record_batch() after each
    batch, and commit. Call set_epoch() at the end of an epoch. After a reset the remaining indices
    are dealt anew. The first ranks may have one index more than others, and so one batch more: a
    rank that has none left calls join(), which lets the others go on. state.sync() then gives it
    what they have learned from that batch.

        for number, batch in enumerate(loader):
            train(batch)
            sampler.record_batch(number, loader.batch_size)
            state.commit()
        ronde.join()
        state.sync()
        sampler.set_epoch(sampler.epoch + 1)
    """

    def __init__(self, data: Sized | int, shuffle: bool = True, seed: int = 0) -> None:
        """data: the data set, or its length. seed: the same on all ranks."""
        if not isinstance(data, (int, Sized)):
            raise ArgumentTypeError(f"data must be a data set, or its length, not {shown(data)}")
        check(seed=seed)
        length = data if isinstance(data, int) else len(data)
        if isinstance(data, bool) or length < 0:
            raise InvalidArgumentError(
                f"data={shown(data)}; allowed: a data set, or its length from 0"
            )
        self.length = length
        self.shuffle, self.seed = shuffle, seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def reset(self) -> None:
        """Deals what remains to the ranks that there are now."""
        self.num_replicas, self.rank = size(), rank()
        order = list(range(self.length))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = order[self.processed_num :]

    def set_epoch(self, epoch: int) -> None:
        """Begins this epoch, with all indices in another order."""
        self.epoch, self.processed_num = epoch, 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Records that all ranks have finished a batch.

        batch_size: the loader's, also for a last batch that is shorter. Call it as often on all
        ranks; a rank that has called join() need not.
        """
        del batch_idx
        if batch_size < 1:
            raise InvalidArgumentError(
                f"batch_size={shown(batch_size)}; allowed: whole numbers from 1"
            )
        self.processed_num = min(self.processed_num + batch_size * self.num_replicas, self.length)

    def state_dict(self) -> dict[str, Any]:
        """The position, the same on all ranks."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes to a position, and deals what remains."""
        self.epoch, self.processed_num = state_dict["epoch"], state_dict["processed_num"]
        self.reset()

    def __iter__(self) -> Iterator[int]:
        """This rank's indices, in order."""
        return iter(self.remaining_indices[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        """The number of this rank's indices."""
        return len(range(self.rank, len(self.remaining_indices), self.num_replicas))
