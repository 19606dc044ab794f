"""The nodes of a Ray cluster as the hosts of an elastic job."""

from __future__ import annotations

import threading
from typing import Any

import ray

from ronde.ray._settings import Resources


class RayHostDiscovery:
    """All nodes that Ray calls alive, with as many slots as their CPUs and GPUs allow.

    A node's name is its address. Nodes of one machine share theirs: all but one have Ray's id after
    it. Threads: any.
    """

    def __init__(
        self, use_gpu: bool = False, cpus_per_slot: float = 1, gpus_per_slot: float | None = None
    ) -> None:
        """cpus_per_slot, gpus_per_slot: what each worker takes.

        Raises InvalidArgumentError with the name of the argument.
        """
        self.each = Resources.of(cpus_per_slot, use_gpu, gpus_per_slot, "slot")
        self._names: dict[str, str] = {}  # by node
        self._lock = threading.Lock()

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Slots by the name of each node that has some."""
        found = {}
        for name, node in self.nodes().items():
            slots = self._slots(node["Resources"])
            if slots:
                found[name] = slots
        return found

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Ray's descriptions of the nodes that are alive, by their names."""
        alive = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
        with self._lock:
            names = {node: name for node, name in self._names.items() if node in alive}
            for identity, node in alive.items():
                address = node["NodeManagerAddress"]
                taken = address in names.values()
                names.setdefault(identity, f"{address}-{identity[:8]}" if taken else address)
            self._names = names
        return {name: alive[identity] for identity, name in names.items()}

    def _slots(self, resources: dict[str, float]) -> int:
        counts = [resources.get("CPU", 0) // self.each.cpus]
        if self.each.gpus:
            counts.append(resources.get("GPU", 0) // self.each.gpus)
        return int(min(counts))
