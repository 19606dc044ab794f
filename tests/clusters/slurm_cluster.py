"""A Slurm cluster on this machine: a controller and some nodes, each in namespaces of its own.

    with SlurmCluster(nodes=2) as cluster:
        cluster.run(["srun", "-N2", "hostname"])

or `python slurm_cluster.py srun -N2 hostname`. The nodes have a munged each.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from clusters import nodes

TOOLS = ("slurmctld", "slurmd", "srun", "munged")
CONFIG = """ClusterName=ronde
SlurmctldHost=login
SlurmUser=root
AuthType=auth/{auth}
CredType=cred/{auth}
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
JobRequeue=1
KillWait=10
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_min_interval=10000
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
NodeName=n[1-{nodes}] CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP PriorityTier=1 GraceTime=10
PartitionName=urgent Nodes=ALL MaxTime=60 State=UP PriorityTier=2 PreemptMode=OFF
"""


def why_not() -> str:
    """Says why there can be no cluster here; empty if there can be one."""
    return nodes.why_not(TOOLS, "slurmctld slurmd slurm-client munge")


class SlurmCluster(nodes.Cluster):
    """The cluster; a context. With `auth` "none", neither Slurm nor the jobs have munge."""

    def __init__(self, nodes: int = 2, cpus: int = 4, auth: str = "munge") -> None:
        self.nodes, self.cpus, self.auth = nodes, cpus, auth

    def holder(self) -> list[str]:
        command = [sys.executable, __file__, "--hold", str(self.folder)]
        command += ["--nodes", str(self.nodes), "--cpus", str(self.cpus), "--auth", self.auth]
        return command

    def settings(self) -> list[str]:
        return [f"SLURM_CONF={self.folder}/slurm.conf"]


class _Holder(nodes.Holder):
    """Starts Slurm's daemons, and a munged on each host."""

    def __init__(self, folder: Path, nodes: int, cpus: int, auth: str) -> None:
        super().__init__(folder, nodes)
        self.cpus, self.auth = cpus, auth
        self.environment["SLURM_CONF"] = f"{folder}/slurm.conf"

    def prepare(self) -> None:
        text = CONFIG.format(auth=self.auth, folder=self.folder, nodes=self.nodes, cpus=self.cpus)
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))

    def equip_login(self) -> None:
        self.start_munge("login", [])

    def equip_node(self, name: str, enter: list[str]) -> None:
        self.start_munge(name, enter)
        self.start(*enter, "slurmd", "-D", "-N", name)

    def finish(self) -> None:
        self.start("slurmctld", "-D")
        self.wait_for(self.all_idle, f"{self.nodes} idle nodes")

    def start_munge(self, name: str, enter: list[str]) -> None:
        """A host's own munged, behind the socket that libmunge looks for."""
        os.makedirs("/run/munge", exist_ok=True)
        self.call(*enter, "mount", "-t", "tmpfs", "-o", "mode=755", "munge", "/run/munge")
        if self.auth != "munge":
            return
        files = [f"--key-file={self.folder}/munge.key", f"--seed-file={self.folder}/{name}.seed"]
        self.start(*enter, "munged", "--foreground", "--force", "--num-threads=1", *files)

    def all_idle(self) -> bool:
        command = ["sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D"]
        said = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        return said.stdout.strip() == str(self.nodes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--cpus", type=int, default=4)
    parser.add_argument("--auth", choices=("munge", "none"), default="munge")
    parser.add_argument("--hold", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.hold:
        return _Holder(Path(options.hold), options.nodes, options.cpus, options.auth).hold()
    if reason := why_not():
        print(f"no Slurm cluster: {reason}", file=sys.stderr)
        return 2
    cluster = SlurmCluster(options.nodes, options.cpus, options.auth)
    return nodes.run_in(cluster, options.command)


if __name__ == "__main__":
    sys.exit(main())
