"""Data loaders whose derived classes say how batches are read."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["AsyncDataLoaderMixin", "BaseDataLoader"]


class BaseDataLoader:
    """Yields the batches of _iterate(), each passed through _process_batch()."""

    def __len__(self) -> int:
        """Number of batches."""
        raise NotImplementedError(f"{type(self).__name__} does not define __len__()")

    def _iterate(self) -> Iterator[Any]:
        """The batches of one epoch."""
        raise NotImplementedError(f"{type(self).__name__} does not define _iterate()")

    def _process_batch(self, batch: Any) -> Any:
        """Changes a batch before the training sees it."""
        return batch

    def __iter__(self) -> Iterator[Any]:
        """One epoch."""
        return map(self._process_batch, self._iterate())


class _Epoch:
    """Reads one epoch in a thread, into a queue of limited length."""

    def __init__(self, batches: Iterator[Any], most: int) -> None:
        self._batches = batches
        self._queue: queue.Queue[tuple[bool, Any]] = queue.Queue(most)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for batch in self._batches:
                if not self._put(True, batch):
                    return
            self._put(False, None)
        except Exception as error:
            self._put(False, error)

    def _put(self, is_batch: bool, value: Any) -> bool:
        """Waits for room; False if nobody wants the batches any more."""
        while not self._stopped.is_set():
            try:
                self._queue.put((is_batch, value), timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def batches(self) -> Iterator[Any]:
        """The batches. Raises what reading them raised."""
        while not self._stopped.is_set():
            is_batch, value = self._queue.get()
            if is_batch:
                yield value
            elif value is not None:
                raise value
            else:
                return

    def stop(self) -> None:
        """Ends the thread; returns when it has ended."""
        self._stopped.set()
        self._thread.join()


class AsyncDataLoaderMixin:
    """Put before a BaseDataLoader among the base classes, reads its batches ahead in a thread."""

    def __init__(
        self,
        async_loader_queue_size: int = 64,
        debug_data_loader: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """async_loader_queue_size: batches read ahead; 0: none, and no thread.

        The others are those of the base class; `debug_data_loader` has no effect.
        """
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        self._epoch: _Epoch | None = None
        super().__init__(*args, **kwargs)

    def __iter__(self: Any) -> Iterator[Any]:
        """One epoch. An epoch that was begun before ends."""
        if self.async_loader_queue_size <= 0:
            return map(self._process_batch, self._iterate())
        self.close_async_loader()
        self._epoch = _Epoch(self._iterate(), self.async_loader_queue_size)
        return map(self._process_batch, self._epoch.batches())

    def close_async_loader(self) -> None:
        """Ends the thread."""
        if self._epoch is not None:
            self._epoch.stop()
            self._epoch = None
