"""mpi_elastic.py SCRIPT HOOK COMMAND...: the life of examples/kubernetes/elastic, in mpi_pods.sh.

It runs COMMAND, the launcher's, with an API that lists one worker, then two, then deletes the
second, in which the preStop hook HOOK runs. SCRIPT is the ConfigMap's discover_pods.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from kubernetes_api import Api, follow, pod

MOUNTED = Path("/run/ronde/discover_pods.py")


def main() -> int:
    script, hook, *command = sys.argv[1:]
    MOUNTED.parent.mkdir()
    shutil.copy(script, MOUNTED)
    names = [f"ronde-train-worker-{n}" for n in range(2)]
    first, second = (pod(name, service="ronde-train") for name in names)
    ending = pod(names[1], service="ronde-train", deletionTimestamp="2026-11-25T16:00:00Z")
    hooks = []
    with Api(Path("/run/account")) as api:
        api.list(first)
        job = subprocess.Popen(
            command,
            env=os.environ | api.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

        def delete() -> None:
            hooks.append(subprocess.Popen(["ip", "netns", "exec", "1", "sh", "-c", hook]))
            api.list(first, ending)

        acts = [
            ("epoch 1: ", lambda: api.list(first, second)),
            ("epoch 2: ", delete),
            ("epoch 3: ", lambda: None),
        ]
        said, missing = follow(job.stdout, acts)
        print(said)
        print("hooks ended:", [one.wait() for one in hooks], "missing:", missing)
        return job.wait()


if __name__ == "__main__":
    sys.exit(main())
