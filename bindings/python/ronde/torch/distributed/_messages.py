"""send and recv of a process group: messages of the job with a tag of the group."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ronde import _core
from ronde._collectives.calls import ANY_SOURCE, message_type
from ronde._errors import InvalidArgumentError, MismatchError
from ronde.torch.distributed._base import GroupBase
from ronde.torch.distributed._tensors import Tensor, dense, elements, restore
from ronde.torch.distributed._work import FutureKeeper, Tensors, Work

# Torch's tags have 31 bits; this bit marks the group's own messages.
_OWN_TAG = 1 << 31


class Message(Work):
    """A message in flight."""

    def __init__(self, ranks: list[int], *arguments: Any) -> None:
        """ranks: the group's. arguments: Work's, with a keeper of its own."""
        super().__init__(*arguments)
        self._ranks = ranks

    def source_rank(self) -> int:
        """The group's rank that a received message came from. Blocks."""
        self.wait()
        return self._ranks.index(self._operation.source)

    _source_rank = source_rank

    def settle(self) -> None:
        """As Work.settle(); ends the future's thread too."""
        super().settle()
        self._keeper.close()


class MessageGroup(GroupBase):
    """A process group with point-to-point messages."""

    _barriers = 0

    def send(self, tensors: Tensors, dstRank: int, tag: int) -> Work:
        """Starts sending one tensor to a rank of the group."""
        return self._send(_only(tensors), dstRank, self._tag(tag))

    def recv(self, tensors: Tensors, srcRank: int, tag: int) -> Work:
        """Starts receiving one tensor of exactly this many bytes."""
        return self._receive(_only(tensors), self._member(srcRank), self._tag(tag))

    def recv_anysource(self, tensors: Tensors, tag: int) -> Work:
        """Starts receiving from any rank; the work's source_rank() is the sender."""
        return self._receive(_only(tensors), ANY_SOURCE, self._tag(tag))

    def next_barrier_tag(self) -> int:
        """The tag of the next monitored barrier's messages."""
        self._barriers += 1
        return self._tag(self._barriers % _OWN_TAG, own=True)

    def _tag(self, tag: int, own: bool = False) -> int:
        if not 0 <= tag < _OWN_TAG:
            raise InvalidArgumentError(f"tag {tag} is not within 0 to {_OWN_TAG - 1}")
        return self._open_set() << 32 | tag | (_OWN_TAG if own else 0)

    def _send(self, tensor: Tensor, to: int, tag: int) -> Work:
        used = elements(dense(tensor))
        runtime = self._membership.runtime()
        kind = message_type(tensor.dtype)
        operation = _core.send(runtime, self._member(to), tag, _memory(used), used, kind)
        return self._message(operation, [tensor], None, f"send to rank {to}")

    def _receive(self, tensor: Tensor, source: int, tag: int) -> Work:
        used = dense(tensor)
        memory = _memory(used)
        runtime, kind = self._membership.runtime(), message_type(tensor.dtype)
        operation = _core.recv(runtime, source, tag, memory, used, kind)

        def finish(done: Any) -> None:
            if done.bytes != memory[1]:
                raise MismatchError(
                    f"recv: rank {self._ranks.index(done.source)} sent {done.bytes} bytes, but the "
                    f"tensor to receive into has {memory[1]}"
                )
            restore(tensor, used)

        sender = "any rank" if source == ANY_SOURCE else f"rank {self._ranks.index(source)}"
        return self._message(operation, [tensor], finish, f"recv from {sender}")

    def _message(
        self, operation: Any, results: Tensors, finish: Callable[[Any], None] | None, call: str
    ) -> Work:
        limit_s = self._limit(timedelta(0))
        explain = self._explain(call)
        keeper = FutureKeeper()  # so that its future waits for no other operation
        arguments = (operation, results, finish, limit_s, explain, keeper)
        return self._started(Message(self._ranks, *arguments))


def _only(tensors: Tensors) -> Tensor:
    if len(tensors) != 1:
        raise InvalidArgumentError(f"one tensor is sent or received at a time, not {len(tensors)}")
    return tensors[0]


def _memory(tensor: Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor.numel() * tensor.element_size()
