"""The places where a job's workers run, and the variables that make them its ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """One worker process. node: Ray's id of its node. address: by which other nodes reach it."""

    node: str
    address: str
    host: str
    pid: int
    gpus: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"pid {self.pid} on node {self.address} ({self.host}, Ray node {self.node[:12]})"


def by_node(places: Sequence[Place]) -> list[int]:
    """Indices of `places`, those of one node in a row; nodes in order of their first place."""
    first: dict[str, int] = {}
    for index, place in enumerate(places):
        first.setdefault(place.node, index)
    return sorted(range(len(places)), key=lambda index: first[places[index].node])


def rank_environments(places: Sequence[Place]) -> list[dict[str, str]]:
    """The variables of each rank, as `ronde run` sets them. `places`: of all ranks, in order."""
    sizes = Counter(place.node for place in places)
    nodes = list(dict.fromkeys(place.node for place in places))
    seen: Counter[str] = Counter()
    across: Counter[int] = Counter()  # by local rank: nodes so far that have one
    environments = []
    for rank, place in enumerate(places):
        local = seen[place.node]
        numbers = {
            **{"RONDE_RANK": rank, "RONDE_SIZE": len(places)},
            **{"RANK": rank, "WORLD_SIZE": len(places)},
            **{"LOCAL_RANK": local, "LOCAL_WORLD_SIZE": sizes[place.node]},
            **{"GROUP_RANK": nodes.index(place.node), "NODE_RANK": nodes.index(place.node)},
            **{"HOROVOD_RANK": rank, "HOROVOD_SIZE": len(places)},
            **{"HOROVOD_LOCAL_RANK": local, "HOROVOD_LOCAL_SIZE": sizes[place.node]},
            "HOROVOD_CROSS_RANK": across[local],
            "HOROVOD_CROSS_SIZE": sum(size > local for size in sizes.values()),
        }
        environment = {name: str(number) for name, number in numbers.items()}
        environment["HOROVOD_HOSTNAME"] = place.address
        gpus = [gpu for each in places if each.node == place.node for gpu in each.gpus]
        if gpus:  # each rank sees those of its node: number LOCAL_RANK is its own
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        environments.append(environment)
        seen[place.node] += 1
        across[local] += 1
    return environments


def job_environment(
    places: Sequence[Place], job_id: str, rendezvous_port: int, master_port: int
) -> dict[str, str]:
    """The variables that all ranks share. The ports are free on the node of rank 0."""
    address = places[0].address
    environment = {
        "RONDE_JOB_ID": job_id,
        "MASTER_ADDR": address,
        "MASTER_PORT": str(master_port),
    }
    if len({place.node for place in places}) > 1:
        host = f"[{address}]" if ":" in address else address
        environment["RONDE_RENDEZVOUS"] = f"{host}:{rendezvous_port}"
    return environment
