"""Two hosts on this machine: namespaces of their own, linked, called n1 and n2."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "chaos"))
from driver.network import HOSTS, TwoHosts
from driver.sandbox import call

NAMES = ("n1", "n2")
SPACES = ["-m", "-u", "-i", "-p", "--fork", "--kill-child", "--mount-proc"]
LIMIT_S = 480
REMOTE_SHELL = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
[ "$1" = n2 ] || {{ echo "no host $1" >&2; exit 255; }}
shift
exec nsenter --net={network} -- unshare -m -u -i sh -c '
  hostname n2; mount --bind {names} /etc/hosts; eval "$*"' sh "$@"
"""
# In place of ssh for both hosts.
ANY_SHELL = """#!/bin/sh
[ "$1" = n1 ] || exec {to_n2} "$@"
shift
eval "$*"
"""


def why_not() -> str:
    """Says why there can be no hosts here; empty if there can be some."""
    return "" if call("unshare", "-n", *SPACES, "true") and call("ip", "-V") else "no namespaces"


class NamedHosts(TwoHosts):
    """The hosts know each other's names; they share all files. `folder`: for a file of theirs."""

    def __init__(self, folder: Path, interfaces: int = 1) -> None:
        super().__init__(interfaces)
        self.names = folder / "hosts"
        lines = [f"{address} {name}" for address, name in zip(HOSTS, NAMES)]
        self.names.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))

    def command(self, host: int, command: list[str]) -> list[str]:
        """The command line that runs `command` on a host, with its own processes."""
        enter = ["nsenter", "-t", str(self.holders[host].pid), "-n", "--", "unshare", *SPACES]
        shell = f'hostname {NAMES[host]}; mount --bind {self.names} /etc/hosts; exec "$@"'
        return [*enter, "--", "sh", "-c", shell, "sh", *command]

    def with_remote_shell(self, folder: Path, command: list[str]) -> tuple[list[str], Path]:
        """The command line that runs `command` on n1, and a program in place of ssh.

        The program runs commands on n2, as `PROGRAM [-OPTION...] n2 COMMAND...`.
        """
        program, network = folder / "remote-shell", folder / "network.n2"
        network.touch()
        program.write_text(REMOTE_SHELL.format(network=network, names=self.names))
        program.chmod(0o755)
        shell = f'mount --bind /proc/{self.holders[1].pid}/ns/net {network}; exec "$@"'
        return ["unshare", "-m", "sh", "-c", shell, "sh", *self.command(0, command)], program

    def sent(self, interface: str) -> int:
        """The bytes that the first host has sent over an interface."""
        lines = Path(f"/proc/{self.holders[0].pid}/net/dev").read_text().splitlines()
        line = next(line for line in lines if line.strip().startswith(f"{interface}:"))
        return int(line.split(":")[1].split()[8])

    def wait_until_sent(self, interface: str, least: int) -> None:
        """Waits until the first host has sent these bytes over it, or the limit has passed."""
        deadline = time.monotonic() + LIMIT_S
        while self.sent(interface) < least and time.monotonic() < deadline:
            time.sleep(0.01)

    def run_on_all(self, commands: list[list[str]], **more) -> list[tuple[int, str, str]]:
        """Runs a command on each host; (status, output, errors) of each."""
        with ExitStack() as stack:
            started = []
            for host, command in enumerate(commands):
                process = subprocess.Popen(
                    self.command(host, command),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    **more,
                )
                stack.callback(process.wait)
                stack.callback(process.kill)
                started.append(process)
            said = [process.communicate(timeout=LIMIT_S) for process in started]
        return [(each.returncode, *text) for each, text in zip(started, said)]


def run(hosts: NamedHosts, folder: Path, script: str, *options: str, np: str = "2", **settings):
    """`ronde run` with the Python text `script` over both hosts: (status, output, errors)."""
    (folder / "script.py").write_text(script)
    _, to_n2 = hosts.with_remote_shell(folder, [])
    shell = folder / "any-shell"
    shell.write_text(ANY_SHELL.format(to_n2=to_n2))
    shell.chmod(0o755)
    ranks = int(np) // 2
    words = [sys.executable, "-m", "ronde", "run", "-H", f"n1:{ranks},n2:{ranks}"]
    words += ["--remote-shell", str(shell), *options, "--", sys.executable]
    command, _ = hosts.with_remote_shell(folder, [*words, str(folder / "script.py")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **settings}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    return done.returncode, done.stdout, done.stderr
