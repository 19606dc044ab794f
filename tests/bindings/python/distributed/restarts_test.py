"""Restarts by torchrun: tests/bindings/python/distributed/restarts.py does the same 100 times."""

import os
import signal
import subprocess
import time

import pytest
import restarts

pytest.importorskip("ronde.torch.distributed", exc_type=ImportError)
from jobs import free_ports


@pytest.mark.parametrize(("api", "first_fault"), [("torch", 2), ("horovod", 6)])
def test_each_restart_is_a_job_of_its_own(api, first_fault):
    count = {"torch": 3, "horovod": 2}[api]
    worked, status, output = restarts.run(count, 2, api, first_fault, limit_s=150)
    assert status == 0, output
    assert worked == count, output
    assert output.count("of 2 done") == 2, output


# Adds until the file "stop" exists. Rank 1 dies when it finds the file "die".
JOINED = """
import os, pathlib, signal, sys
import torch
import torch.distributed as dist
import ronde.torch.distributed

folder = pathlib.Path(sys.argv[1])
dist.init_process_group("ronde")
told = False
while True:
    found = torch.tensor([1.0, float((folder / "stop").exists())])
    dist.all_reduce(found)
    assert found[0] == dist.get_world_size()
    if not told:
        told = True
        count = os.environ["TORCHELASTIC_RESTART_COUNT"]
        with (folder / "log").open("a") as log:
            log.write(f"rank {dist.get_rank()} of {dist.get_world_size()} restart {count};")
    if found[1] > 0:
        break
    if dist.get_rank() == 1 and (folder / "die").exists():
        (folder / "die").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
dist.destroy_process_group()
"""


class Agents:
    """Some agents of one torchrun job on this host, with a rank each."""

    def __init__(self, folder):
        self.folder = folder
        self.endpoint = f"127.0.0.1:{free_ports(1)}"
        self.agents = []
        (folder / "job.py").write_text(JOINED)

    def start(self):
        command = restarts.torchrun("--nnodes=1:4", "--rdzv-backend=c10d", "--rdzv-id=joined")
        command += [f"--rdzv-endpoint={self.endpoint}", "--rdzv-conf=last_call_timeout=1"]
        command += ["--max-restarts=3", str(self.folder / "job.py"), str(self.folder)]
        # With a shared store PyTorch 2.13 lets no agent in that comes late, with any backend.
        alone = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        environment = {**os.environ, **alone, "OMP_NUM_THREADS": "1"}
        with (self.folder / f"agent{len(self.agents)}").open("w") as log:
            self.agents.append(
                subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
            )

    def wait_for(self, texts, limit_s=60):
        end = time.monotonic() + limit_s
        log = self.folder / "log"
        while not all(text in (log.read_text() if log.exists() else "") for text in texts):
            assert time.monotonic() < end, self.output()
            time.sleep(0.05)

    def output(self):
        return "\n".join(path.read_text() for path in sorted(self.folder.iterdir()))

    def end(self):
        for agent in self.agents:
            if agent.poll() is None:
                agent.send_signal(signal.SIGTERM)
                agent.wait(40)


def test_agents_that_count_different_restarts_are_one_job(tmp_path):
    agents = Agents(tmp_path)
    try:
        agents.start()
        agents.wait_for(["rank 0 of 1 restart 0;"])
        agents.start()  # the first agent starts its worker again, and counts no restart
        agents.wait_for(["rank 0 of 2 restart 0;", "rank 1 of 2 restart 0;"])
        (tmp_path / "log").unlink()
        (tmp_path / "die").touch()
        agents.wait_for(["rank 0 of 2 restart", "rank 1 of 2 restart"])
        (tmp_path / "stop").touch()
        assert [agent.wait(60) for agent in agents.agents] == [0, 0], agents.output()
    finally:
        agents.end()
