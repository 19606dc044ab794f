"""Hosts of elastic jobs: network namespaces with an sshd each, on a bridge in the driver's own.

Their links can be cut and they can lose their power, as real hosts do. Nothing of them lasts longer
than the driver.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from driver.sandbox import CLONE_NEWNET, Sandbox, call, libc

PORT = 2222
TOOLS = ("ip", "nft", "nsenter", "ssh", "ssh-keygen", "sshd")
NETWORK = "10.78.0"
SSHD = """Port {port}
SetEnv HOME={folder}/home
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
StrictModes no
UsePAM no
PidFile none
"""


def why_not(sandbox: Sandbox) -> str:
    """Says why there can be no hosts here; empty if there can be some."""
    if not sandbox.isolated or os.getuid() != 0:
        return "network namespaces and sshd need root"
    path = os.environ.get("PATH", "") + ":/usr/sbin"
    missing = [name for name in TOOLS if shutil.which(name, path=path) is None]
    return f"{', '.join(missing)} not installed" if missing else ""


class Host:
    """One host. `holder` keeps its namespace."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number, self.folder = number, folder
        self.address = f"{NETWORK}.{number + 1}"
        self.holder = subprocess.Popen(
            ["sleep", "1000000"], preexec_fn=lambda: libc.unshare(CLONE_NEWNET)
        )
        time.sleep(0.05)
        self.link = f"host{number}"
        peer = ["peer", "name", "eth0", "netns", str(self.holder.pid)]
        call("ip", "link", "add", self.link, "type", "veth", *peer)
        call("ip", "link", "set", self.link, "master", "br0", "up")
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")
        self.run("ip", "link", "set", "lo", "up")
        self.start_sshd()

    def _inside(self, *command: str) -> list[str]:
        return ["nsenter", "-t", str(self.holder.pid), "-n", "--", *command]

    def run(self, *command: str) -> bool:
        """Runs a command on the host; whether it succeeded."""
        return call(*self._inside(*command))

    def start_sshd(self) -> None:
        program = shutil.which("sshd") or "/usr/sbin/sshd"
        self.sshd = subprocess.Popen(
            self._inside(program, "-D", "-f", str(self.folder / "sshd_config")),
            stderr=subprocess.DEVNULL,
        )

    def own_processes(self) -> set[int]:
        """Processes that there are without a job."""
        return {self.holder.pid, self.sshd.pid}

    def processes(self) -> Iterator[int]:
        """Processes of this host below the driver, but the one that holds the namespace."""
        space = os.readlink(f"/proc/{self.holder.pid}/ns/net")
        for pid in Sandbox.descendants():
            with contextlib.suppress(OSError):
                if pid != self.holder.pid and os.readlink(f"/proc/{pid}/ns/net") == space:
                    yield pid

    def cut(self) -> None:
        call("ip", "link", "set", self.link, "down")

    def heal(self) -> None:
        call("ip", "link", "set", self.link, "up")

    def lose_power(self) -> None:
        """Nothing is sent any more, then all processes are gone."""
        self.cut()
        for pid in list(self.processes()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.sshd.wait()

    def come_back(self) -> None:
        """Undoes all that."""
        self.run("nft", "flush", "ruleset")
        self.heal()
        if self.sshd.poll() is not None:
            self.start_sshd()

    def part_from(self, other: Host) -> None:
        """This host and the other do not reach each other, but all others do."""
        rules = "add table inet t; add chain inet t c { type filter hook output priority 0; };"
        drop = f"add rule inet t c ip daddr {other.address} drop"
        self.run("nft", f"{rules} {drop}")

    def reachable(self) -> bool:
        address = (self.address, PORT)
        with contextlib.suppress(OSError), socket.create_connection(address, 0.2):
            return True
        return False


class Hosts:
    """Some hosts, and what `ronde run` needs to start workers there."""

    def __init__(self, count: int, folder: Path) -> None:
        self.folder = folder
        for name in ("host_key", "user_key"):
            key = str(folder / name)
            call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
        (folder / "home").mkdir()  # shells that are killed leave locks of the user's tools behind
        (folder / "sshd_config").write_text(SSHD.format(port=PORT, folder=folder))
        os.makedirs("/run/sshd", exist_ok=True)
        call("ip", "link", "add", "br0", "type", "bridge")
        call("ip", "address", "add", f"{NETWORK}.254/24", "dev", "br0")
        call("ip", "link", "set", "br0", "up")
        self.all = [Host(number, folder) for number in range(count)]
        end = time.monotonic() + 20
        while not all(host.reachable() for host in self.all):
            if time.monotonic() > end:
                raise SystemExit("the hosts' sshd cannot be reached")
            time.sleep(0.05)

    def options(self) -> list[str]:
        """Of `ronde run`."""
        options = ["--ssh-port", str(PORT), "--ssh-identity-file", str(self.folder / "user_key")]
        for option in ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null"):
            options += ["--ssh-option", option]
        return [*options, "--ssh-option", "ConnectTimeout=2", "--network-interface", "eth0"]

    def slots(self, ranks: int, chance: random.Random) -> list[str]:
        """Lines of a host file with this many slots, at least one on each host."""
        slots = [1] * len(self.all)
        for _ in range(ranks - len(slots)):
            slots[chance.randrange(len(slots))] += 1
        return [f"{host.address} slots={n}" for host, n in zip(self.all, slots)]

    def own_processes(self) -> set[int]:
        return {pid for host in self.all for pid in host.own_processes()}

    def come_back(self) -> None:
        for host in self.all:
            host.come_back()
