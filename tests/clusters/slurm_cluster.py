"""A Slurm cluster on this machine: a controller and some nodes, each in namespaces of its own.

    with SlurmCluster(nodes=2) as cluster:
        cluster.run(["srun", "-N2", "hostname"])

or `python slurm_cluster.py srun -N2 hostname`. All processes live in one PID namespace, and end
with it. The nodes n1, n2, ... have their own network, host name and munged, but share all files.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
TOOLS = ("slurmctld", "slurmd", "srun", "munged", "ip", "unshare", "nsenter")
NETWORK = "10.79.0"
LOGIN = 254  # the last number of the address of the host that starts jobs
START_SECONDS = 30.0
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


def _search_path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def why_not() -> str:
    """Says why there can be no cluster here; empty if there can be one."""
    if os.getuid() != 0:
        return "network namespaces need root"
    missing = [name for name in TOOLS if shutil.which(name, path=_search_path()) is None]
    if missing:
        return f"{', '.join(missing)} not installed (Debian: slurmctld slurmd slurm-client munge)"
    probe = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--mount-proc", "true"]
    return (
        "" if subprocess.run(probe, capture_output=True).returncode == 0 else "no namespaces here"
    )


class SlurmCluster:
    """The cluster; a context. With `auth` "none", neither Slurm nor the jobs have munge."""

    def __init__(self, nodes: int = 2, cpus: int = 4, auth: str = "munge") -> None:
        self.nodes, self.cpus, self.auth = nodes, cpus, auth

    def __enter__(self) -> SlurmCluster:
        self.folder = Path(tempfile.mkdtemp(prefix="ronde-slurm-"))
        command = [sys.executable, __file__, "--hold", str(self.folder)]
        command += ["--nodes", str(self.nodes), "--cpus", str(self.cpus), "--auth", self.auth]
        spaces = ["--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self.process = subprocess.Popen(
            ["unshare", *spaces, "--", *command],
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline().strip()
        if said != "ready":
            log = self.folder / "daemons.log"
            last = log.read_text()[-1000:] if log.exists() else ""
            self.__exit__()
            raise RuntimeError(f"the cluster did not start: {said}\n{last}")
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.login = int(children.read_text())
        self.setting = f"SLURM_CONF={self.folder}/slurm.conf"
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()  # the holder gets SIGKILL, and with it all of its PID namespace
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, command: list[str]) -> list[str]:
        """The command line that runs `command` on the host that starts jobs."""
        spaces = ["-t", str(self.login), "-m", "-n", "-u", "-p"]
        return ["nsenter", *spaces, "--", "env", f"--chdir={os.getcwd()}", self.setting, *command]

    def run(self, command: list[str], timeout: float = 60, **more) -> subprocess.CompletedProcess:
        """Runs a command there, such as srun; returns its status and output."""
        return subprocess.run(
            self.command(command), timeout=timeout, capture_output=True, text=True, **more
        )


class _Holder:
    """The first process of the PID namespace: starts all daemons, then waits to be killed."""

    def __init__(self, folder: Path, nodes: int, cpus: int, auth: str) -> None:
        self.folder, self.nodes, self.cpus, self.auth = folder, nodes, cpus, auth
        self.environment = dict(os.environ, PATH=_search_path(), SLURM_CONF=f"{folder}/slurm.conf")
        self.daemons: list[subprocess.Popen[bytes]] = []

    def call(self, *command: str) -> None:
        subprocess.run(command, check=True, env=self.environment)

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        log = (self.folder / "daemons.log").open("ab")
        self.daemons.append(
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment
            )
        )
        return self.daemons[-1]

    def write_files(self) -> None:
        text = CONFIG.format(auth=self.auth, folder=self.folder, nodes=self.nodes, cpus=self.cpus)
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "state").mkdir()
        names = [f"{NETWORK}.{LOGIN} login", *(f"{NETWORK}.{n} n{n}" for n in self.numbers())]
        (self.folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))

    def numbers(self) -> range:
        return range(1, self.nodes + 1)

    def make_login_host(self) -> None:
        self.call("mount", "--bind", str(self.folder / "hosts"), "/etc/hosts")
        self.call("hostname", "login")
        self.call("ip", "link", "set", "lo", "up")
        self.call("ip", "link", "add", "br0", "type", "bridge")
        self.call("ip", "address", "add", f"{NETWORK}.{LOGIN}/24", "dev", "br0")
        self.call("ip", "link", "set", "br0", "up")
        self.start_munge("login", [])

    def start_munge(self, name: str, enter: list[str]) -> None:
        """A host's own munged, behind the socket that libmunge looks for."""
        os.makedirs("/run/munge", exist_ok=True)
        self.call(*enter, "mount", "-t", "tmpfs", "-o", "mode=755", "munge", "/run/munge")
        if self.auth != "munge":
            return
        files = [f"--key-file={self.folder}/munge.key", f"--seed-file={self.folder}/{name}.seed"]
        self.start(*enter, "munged", "--foreground", "--force", "--num-threads=1", *files)

    def make_node(self, number: int) -> None:
        """A node, held by a process that sleeps."""
        name = f"n{number}"
        sleeper = self.start("unshare", "--mount", "--net", "--uts", "sleep", "infinity")
        self.wait_for(lambda: _other_network(sleeper.pid), f"namespaces of {name}")
        enter = ["nsenter", "-t", str(sleeper.pid), "-m", "-n", "-u", "--"]
        peer = ["peer", "name", "eth0", "netns", str(sleeper.pid)]
        self.call("ip", "link", "add", name, "type", "veth", *peer)
        self.call("ip", "link", "set", name, "master", "br0", "up")
        self.call(*enter, "hostname", name)
        self.call(*enter, "ip", "link", "set", "lo", "up")
        self.call(*enter, "ip", "address", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
        self.call(*enter, "ip", "link", "set", "eth0", "up")
        self.start_munge(name, enter)
        self.start(*enter, "slurmd", "-D", "-N", name)

    def wait_for(self, condition, what: str) -> None:
        end = time.monotonic() + START_SECONDS
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"no {what} within {START_SECONDS:.0f} s")
            time.sleep(0.02)

    def all_idle(self) -> bool:
        command = ["sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D"]
        said = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        return said.stdout.strip() == str(self.nodes)

    def run(self) -> None:
        self.write_files()
        self.make_login_host()
        for number in self.numbers():
            self.make_node(number)
        self.start("slurmctld", "-D")
        self.wait_for(self.all_idle, f"{self.nodes} idle nodes")
        print("ready", flush=True)
        while True:
            signal.sigwait({signal.SIGCHLD})
            while _reap():
                pass


def _reap() -> bool:
    """Reaps one process that nobody waits for; false if there is none."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _other_network(pid: int) -> bool:
    return os.readlink(f"/proc/{pid}/ns/uts") != os.readlink("/proc/self/ns/uts")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--cpus", type=int, default=4)
    parser.add_argument("--auth", choices=("munge", "none"), default="munge")
    parser.add_argument("--hold", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.hold:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            _Holder(Path(options.hold), options.nodes, options.cpus, options.auth).run()
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            return 1
    if reason := why_not():
        print(f"no Slurm cluster: {reason}", file=sys.stderr)
        return 2
    with SlurmCluster(options.nodes, options.cpus, options.auth) as cluster:
        return subprocess.run(cluster.command(options.command)).returncode


if __name__ == "__main__":
    sys.exit(main())
