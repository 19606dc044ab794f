#!/usr/bin/env bash
# Builds the site into build/site; fails on a broken link. Ronde itself need not be built.
#   bash docs/build.sh           then open build/site/index.html
#   bash docs/build.sh --serve   shows it at http://127.0.0.1:8000 and follows changes
set -euo pipefail
# shellcheck source=examples/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../examples/setup.sh"
cd "$root"
install_packages doxygen
python=$(find_python) || die "no usable Python >= 3.9"
make_venv
install_requirements "$root/docs/requirements.txt"
export NO_MKDOCS_2_WARNING=1
case ${1:-} in
  '') "$venv/bin/mkdocs" build --strict && say "The site: build/site/index.html" ;;
  --serve) "$venv/bin/mkdocs" serve ;;
  *) die "unknown argument: $1; allowed: --serve" ;;
esac
