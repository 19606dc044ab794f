#!/usr/bin/env bash
# From a fresh clone to two processes that train on real data: installs what is missing, builds,
# trains a small network on scikit-learn's handwritten digits. May be run again at any time.
set -euo pipefail
usage() {
  echo "usage: bash examples/quickstart.sh [options of examples/train_digits.py]"
  echo "Sets up this machine where needed, then trains with two processes and writes a timeline."
}
case ${1:-} in -h | --help) usage; exit 0 ;; esac
# shellcheck source=examples/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up

# All eight epochs must learn; whoever sets options of their own sets their own target.
[ $# -gt 0 ] || set -- --target 0.95
trace=$root/build/quickstart-trace.json
rm -f "$root"/build/quickstart-trace*.json
say "Training: ronde run -np 2 --timeline build/quickstart-trace.json -- examples/train_digits.py"
"$venv/bin/ronde" run -np 2 --timeline "$trace" -- \
  "$venv/bin/python" "$root/examples/train_digits.py" "$@"
[ -s "$trace" ] || die "the run left no timeline at $trace"
say "Timeline: $trace"
echo "    Open it in https://ui.perfetto.dev or chrome://tracing."
