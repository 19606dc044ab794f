"""A process group's lifetime, and its calls as operations of one process set.

Every group has its own process set with unnamed operations: the k-th call of each rank matches the
k-th calls of the others, whatever they are. So calls of ranks that are out of step match, and the
negotiation reports both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FakeProcessGroup, Store

from ronde import _core
from ronde._calls import reduce_ops
from ronde._collectives.calls import Call
from ronde._errors import (
    AbortedError,
    Error,
    InvalidArgumentError,
    NotInitializedError,
    TimeoutError,
)
from ronde._job.process_sets import global_process_set
from ronde.torch._collectives import profiler
from ronde.torch.distributed._membership import Membership
from ronde.torch.distributed._work import FutureKeeper, Joined, Tensors, Work, name_in_callback

# A local wait lasts longer than the group's limit by this, as the latter names missing ranks.
_MARGIN_S = 5.0
_CLOSE_LIMIT_S = 5.0
# Names repeat, as known names cost less; fewer calls than these are in flight.
_NUMBERS = 256

Finish = Callable[[Any], None]


# Torch's stubs have C++ overloads; Python code sees one form of each.
_ProcessGroup: Any = dist.ProcessGroup
_FakeProcessGroup: Any = FakeProcessGroup


class GroupBase(_ProcessGroup):  # type: ignore[misc]
    """A process set of the job as torch's process group: everything but the collectives.

    Threads: any, one call at a time.
    """

    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False

    def __init__(self, options: Any, ranks: Sequence[int], membership: Membership) -> None:
        """Opens the process set of `ranks`; collective over them. Blocks.

        The group takes over one use of `membership`.
        """
        super().__init__(options.group_rank, options.group_size)
        self._answer_torch(options.group_rank, options.group_size)
        self._membership = membership
        self._store: Store = options.store
        self._ranks = list(ranks)
        self._size = len(self._ranks)
        self._rank = int(options.group_rank)
        self._name = str(options.group_id)
        self._description = "undefined"
        self._limit_s: float = options.timeout.total_seconds()
        self._keeper = FutureKeeper()
        self._coalesced: list[Work] | None = None
        self._calls = 0
        self._aborted = False
        self._set: int | None = membership.runtime().open_set(
            self._ranks, self._name, self._limit_s, self._limit_s
        )

    # Torch's queries about a group.

    def _answer_torch(self, rank: int, size: int) -> None:
        """Gives torch's C++ code a backend to ask for the group's devices and names.

        Its flight recorder and its hooks do so. A collective of this backend is an error: torch
        calls this group's own.
        """
        options = _FakeProcessGroup.Options()
        options.error_on_collective = True
        answers = _FakeProcessGroup._create_internal(rank, size, options)
        self._register_backend(torch.device("cpu"), _ProcessGroup.BackendType.CUSTOM, answers)
        self._set_default_backend(_ProcessGroup.BackendType.CUSTOM)

    def get_group_store(self) -> Store:
        """Torch's store, with a prefix of this group's own."""
        return self._store

    def name(self) -> str:
        """The name it is registered under."""
        return "ronde"

    getBackendName = name

    def size(self) -> int:
        """Number of ranks."""
        return self._size

    def rank(self) -> int:
        """This process's position in the group."""
        return self._rank

    def getGroupName(self) -> str:
        """Torch's unique name of the group."""
        return self._name

    def setGroupName(self, name: str) -> None:
        """Sets torch's unique name of the group."""
        self._name = name
        super()._set_group_name(name)

    def getGroupDesc(self) -> str:
        """The user's description of the group."""
        return self._description

    def setGroupDesc(self, description: str) -> None:
        """Sets the user's description of the group."""
        self._description = description
        super()._set_group_desc(description)

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name, group_desc = property(getGroupName), property(getGroupDesc)

    def _get_backend(self, device: torch.device) -> GroupBase:
        if device.type != "cpu":
            raise RuntimeError(f"the backend ronde has no data plane for {device}")
        return self

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        """Ronde allocates no tensors for FSDP."""
        return False

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the limit of later waits."""
        self._limit_s = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def _set_sequence_number_for_group(self) -> None:
        """All groups start at 0."""

    def _get_sequence_number_for_group(self) -> int:
        return self._calls

    # A smaller group is made from these.

    def ranks(self) -> list[int]:
        """The job's ranks of the group's, by rank of the group."""
        return self._ranks

    def limit_s(self) -> float:
        """The group's timeout."""
        return self._limit_s

    def membership(self) -> Membership:
        """The job that the group is of."""
        return self._membership

    # The end of a group.

    def shutdown(self) -> None:
        """Leaves the group: later calls of other ranks fail. The last group leaves the job."""
        if self._set is None:
            return
        closing, self._set = self._set, None
        self._keeper.close()
        try:
            if self._membership.is_current():
                limit_s = 0.0 if self._aborted else _CLOSE_LIMIT_S
                self._membership.runtime().close_set(closing, limit_s)
        except Error:
            pass  # a timeout, or the job has failed: the group is left in any case
        finally:
            self._membership.leave()

    def abort(self) -> None:
        """As shutdown(), without waiting: pending operations fail on all ranks."""
        self._aborted = True
        self.shutdown()

    # Calls as operations.

    def _explain(self, call: str) -> Callable[[Error], Error]:
        """Rewrites an error of `call` in terms of the process group."""
        number = self._calls

        def explain(error: Error) -> Error:
            if self._aborted:
                return AbortedError(f"{call}: the process group {self._name} was aborted")
            if type(error) is TimeoutError:
                return TimeoutError(
                    f"{call}, call {number} of process group {self._name}, has not ended in time"
                )
            where = f"process group {self._name}, call"
            text = str(error).replace("(unnamed, number", f"({where}")
            error.args = (text.replace("unnamed operation number", where),)
            return error

        return explain

    def _limit(self, timeout: timedelta) -> float:
        seconds = timeout.total_seconds()
        return seconds if seconds > 0 else self._limit_s + _MARGIN_S

    def _open_set(self) -> int:
        if self._set is None:
            raise NotInitializedError(f"the process group {self._name} was destroyed or aborted")
        return self._set

    def _member(self, place: int) -> int:
        """The job's rank of a rank of the group."""
        if not 0 <= place < self._size:
            raise InvalidArgumentError(
                f"rank {place} is not in the process group {self._name}; allowed: 0 to "
                f"{self._size - 1}"
            )
        return self._ranks[place]

    def _start(
        self,
        kind: int,
        inputs: list[Any],
        outputs: list[Any],
        keep: Any,
        results: Tensors,
        options: Any,
        finish: Finish | None = None,
        op: int = reduce_ops.Sum,
        prescale: float = 1.0,
        root: int = -1,
        splits: Any = None,
        name: str = "",
        compression: str = "",
        weight: float | None = None,
    ) -> Work:
        """Submits one operation. Waits for it too if the caller would wait anyway."""
        process_set = self._open_set()
        root = root if root == -1 else self._member(root)
        name = name or name_in_callback(_NAMES[kind])
        self._calls += not name
        explain = self._explain(_NAMES[kind])
        limit_s = self._limit(options.timeout)
        wait = not options.asyncOp
        # The core takes the group's set by its id.
        call = Call(
            name, global_process_set, op, (prescale, 1.0), root,
            compression=compression, weight=weight,
        )  # fmt: skip
        event = None
        if profiler.switch._is_profiler_enabled:
            given = _inputs_of(keep)
            event = profiler.begin(kind, given, results, self._ranks, name, self._name, op, root)
        try:
            operation = _core.submit(
                self._membership.runtime(), kind, process_set, inputs, outputs, keep, wait, call,
                splits, limit_s,
            )  # fmt: skip
        except Error as error:
            raise explain(error) from None
        finally:
            if event is not None:
                event.__exit__(None, None, None)
        identity = name or f"call {self._calls % _NUMBERS}"
        work = Work(operation, results, finish, limit_s, explain, self._keeper, identity)
        if wait:
            work.wait()
        return self._started(work)

    def _started(self, work: Work) -> Work:
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _start_coalescing(self, device: torch.device) -> None:
        self._coalesced = []

    def _end_coalescing(self, device: torch.device) -> Work:
        works, self._coalesced = self._coalesced or [], None
        return Joined(works, self._keeper)


def _inputs_of(keep: Any) -> Tensors:
    """The input tensors among those that an operation keeps alive."""
    given = keep[0] if isinstance(keep, tuple) else keep
    return [given] if isinstance(given, torch.Tensor) else given or []


_NAMES = tuple(_core.collectives())
