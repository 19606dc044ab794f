"""Hosts on this machine, each in namespaces of its own: the base of the clusters of these tests.

A kind of cluster has a Holder, which makes the hosts and equips them, and a Cluster, which starts
the holder. The hosts n1, n2, ... have their own network and host name, but share all files. All
processes live in one PID namespace, and end with it. Jobs start on a further host, "login".
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
NETWORK = "10.79.0"
LOGIN = 254  # the last number of the address of the host that starts jobs
START_SECONDS = 30.0


def search_path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def why_not(tools: tuple[str, ...], packages: str) -> str:
    """Says why there can be no cluster here; empty if there can be one."""
    if os.getuid() != 0:
        return "network namespaces need root"
    tools = (*tools, "ip", "unshare", "nsenter")
    missing = [name for name in tools if shutil.which(name, path=search_path()) is None]
    if missing:
        return f"{', '.join(missing)} not installed (Debian: {packages})"
    probe = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--mount-proc", "true"]
    return (
        "" if subprocess.run(probe, capture_output=True).returncode == 0 else "no namespaces here"
    )


class Cluster:
    """The cluster; a context."""

    parent: str | None = None  # the folder's folder; None for that of temporary files

    def holder(self) -> list[str]:
        """The command that runs the holder."""
        raise NotImplementedError

    def settings(self) -> list[str]:
        """The variables of commands, as NAME=VALUE."""
        return []

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="ronde-nodes-", dir=self.parent))
        spaces = ["--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self.process = subprocess.Popen(
            ["unshare", *spaces, "--", *self.holder()],
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
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()  # the holder gets SIGKILL, and with it all of its PID namespace
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, command: list[str]) -> list[str]:
        """The command line that runs `command` on the host that starts jobs."""
        spaces = ["-t", str(self.login), "-m", "-n", "-u", "-p"]
        settings = [f"--chdir={os.getcwd()}", *self.settings()]
        return ["nsenter", *spaces, "--", "env", *settings, *command]

    def run(self, command: list[str], timeout: float = 60, **more) -> subprocess.CompletedProcess:
        """Runs a command there, such as srun; returns its status and output."""
        return subprocess.run(
            self.command(command), timeout=timeout, capture_output=True, text=True, **more
        )


class Holder:
    """The first process of the PID namespace: starts all daemons, then waits to be killed."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.folder, self.nodes = folder, nodes
        self.environment = dict(os.environ, PATH=search_path())
        self.daemons: list[subprocess.Popen[bytes]] = []

    # A kind of cluster has its own of these four.

    def prepare(self) -> None:
        """Before there is any host."""

    def equip_login(self) -> None:
        """This process is on that host."""

    def equip_node(self, name: str, enter: list[str]) -> None:
        """`enter`: words before a command that runs on the node."""

    def finish(self) -> None:
        """When all hosts are there. Returns when jobs can start."""

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

    def wait_for(self, condition, what: str) -> None:
        end = time.monotonic() + START_SECONDS
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"no {what} within {START_SECONDS:.0f} s")
            time.sleep(0.02)

    def numbers(self) -> range:
        return range(1, self.nodes + 1)

    def _make_login_host(self) -> None:
        names = [f"{NETWORK}.{LOGIN} login", *(f"{NETWORK}.{n} n{n}" for n in self.numbers())]
        (self.folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
        self.call("mount", "--bind", str(self.folder / "hosts"), "/etc/hosts")
        self.call("hostname", "login")
        self.call("ip", "link", "set", "lo", "up")
        self.call("ip", "link", "add", "br0", "type", "bridge")
        self.call("ip", "address", "add", f"{NETWORK}.{LOGIN}/24", "dev", "br0")
        self.call("ip", "link", "set", "br0", "up")
        self.equip_login()

    def _make_node(self, number: int) -> None:
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
        self.equip_node(name, enter)

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        self.prepare()
        self._make_login_host()
        for number in self.numbers():
            self._make_node(number)
        self.finish()
        print("ready", flush=True)
        while True:
            signal.sigwait({signal.SIGCHLD})
            while _reap():
                pass

    def hold(self) -> int:
        """Makes the hosts, says "ready" or why not, and keeps them. Returns only after an error."""
        try:
            self._run()
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)
        return 1


def run_in(cluster: Cluster, command: list[str]) -> int:
    """Runs one command in a cluster of its own; returns its status."""
    with cluster:
        return subprocess.run(cluster.command(command)).returncode


def _reap() -> bool:
    """Reaps one process that nobody waits for; false if there is none."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _other_network(pid: int) -> bool:
    return os.readlink(f"/proc/{pid}/ns/uts") != os.readlink("/proc/self/ns/uts")
