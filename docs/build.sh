#!/usr/bin/env bash
# Builds the site into build/site; fails on a broken link. Builds Ronde, too: the reference of the
# command and of the settings is what it prints.
#   bash docs/build.sh           then open build/site/index.html; it needs no server
#   bash docs/build.sh --serve   shows it at http://127.0.0.1:8000 and follows changes
set -euo pipefail
# shellcheck source=examples/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../examples/setup.sh"
cd "$root"
case ${1:-} in '' | --serve) ;; *) die "unknown argument: $1; allowed: --serve" ;; esac
set_up
install_packages doxygen
install_requirements "$root/docs/requirements.txt"
export NO_MKDOCS_2_WARNING=1
case ${1:-} in
  '') "$venv/bin/mkdocs" build --strict && say "The site: build/site/index.html" ;;
  --serve) "$venv/bin/mkdocs" serve ;;
esac
