"""Hosts with an sshd each on this machine: ssh from "login" to n1, n2, ... needs no password.

    with SshCluster(nodes=2) as cluster:
        cluster.run(["ronde", "run", "-H", "n1:2,n2:2", "hostname"])

or `python ssh_cluster.py ronde run -H n1:2,n2:2 hostname`. Each host has a /tmp of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from clusters import nodes

TOOLS = ("ssh", "sshd", "ssh-keygen")
CHECKOUT = Path(__file__).resolve().parents[2]
# Of the checkout and a folder: an empty /tmp, in which the checkout stays where it lies there.
OWN_TMP = """
mount --bind "$1" "$2"
mount -t tmpfs -o mode=1777 tmp /tmp
mkdir -p "$1"
mount --bind "$2" "$1"
umount "$2"
"""
# Shells that are killed leave locks of the user's tools behind: they find another home.
SSHD = """HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
SetEnv HOME={folder}/home
StrictModes no
UsePAM no
PidFile none
"""
SSH = """IdentityFile {folder}/user_key
UserKnownHostsFile {folder}/known_hosts
GlobalKnownHostsFile none
ConnectTimeout 5
"""


def why_not() -> str:
    """Says why there can be no cluster here; empty if there can be one."""
    return nodes.why_not(TOOLS, "openssh-client openssh-server")


class SshCluster(nodes.Cluster):
    """The cluster; a context."""

    parent = "/var/tmp"  # that all hosts see

    def __init__(self, nodes: int = 2) -> None:
        self.nodes = nodes

    def holder(self) -> list[str]:
        return [sys.executable, __file__, "--hold", str(self.folder), "--nodes", str(self.nodes)]


class _Holder(nodes.Holder):
    """Starts an sshd on each node."""

    def prepare(self) -> None:
        for name in ("host_key", "user_key"):
            key = str(self.folder / name)
            self.call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
        (self.folder / "home").mkdir()
        (self.folder / "sshd_config").write_text(SSHD.format(folder=self.folder))
        (self.folder / "ssh_config").write_text(SSH.format(folder=self.folder))
        host_key = (self.folder / "host_key.pub").read_text()
        names = ",".join(f"n{number}" for number in self.numbers())
        (self.folder / "known_hosts").write_text(f"{names} {host_key}")
        os.makedirs("/run/sshd", exist_ok=True)

    def equip_login(self) -> None:
        self.call("mount", "--bind", str(self.folder / "ssh_config"), "/etc/ssh/ssh_config")

    def equip_node(self, name: str, enter: list[str]) -> None:
        aside = self.folder / f"checkout-{name}"
        aside.mkdir()
        self.call(*enter, "sh", "-ec", OWN_TMP, "sh", str(CHECKOUT), str(aside))
        self.start(*enter, "/usr/sbin/sshd", "-D", "-e", "-f", str(self.folder / "sshd_config"))

    def finish(self) -> None:
        self.wait_for(self.all_answer, f"answer of {self.nodes} sshd")

    def all_answer(self) -> bool:
        hosts = [f"n{number}" for number in self.numbers()]
        ssh = [["ssh", "-n", host, "true"] for host in hosts]
        return all(subprocess.run(one, capture_output=True).returncode == 0 for one in ssh)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--hold", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.hold:
        return _Holder(Path(options.hold), options.nodes).hold()
    if reason := why_not():
        print(f"no hosts with ssh: {reason}", file=sys.stderr)
        return 2
    return nodes.run_in(SshCluster(options.nodes), options.command)


if __name__ == "__main__":
    sys.exit(main())
