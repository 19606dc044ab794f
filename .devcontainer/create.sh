#!/usr/bin/env bash
# Makes a new container ready for work: .venv with ronde and all that tests need, the commands for
# clangd, and the hooks of git.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
apt-get update
apt-get install -y --no-install-recommends ca-certificates clang-format clangd gdb git python3 \
  python3-dev python3-venv
# shellcheck source=examples/setup.sh
source examples/setup.sh
set_up tests
cmake --preset dev
.venv/bin/pip install pre-commit
.venv/bin/pre-commit install
