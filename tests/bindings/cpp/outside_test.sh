#!/bin/bash
# Installs a build into a scratch place, builds the project in outside/ against it, and runs that.
# Usage: outside_test.sh BUILD_DIRECTORY CMAKE
set -eu
build=$1
cmake=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$cmake" --install "$build" --prefix "$scratch/ronde" > "$scratch/install.log" 2>&1 ||
  { cat "$scratch/install.log"; exit 1; }
"$cmake" -S "$here/outside" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$scratch/ronde" \
  -DCMAKE_BUILD_TYPE=Release > "$scratch/configure.log" 2>&1 ||
  { cat "$scratch/configure.log"; exit 1; }
"$cmake" --build "$scratch/build"

out=$("$scratch/ronde/bin/ronde" run -np 2 "$scratch/build/outside")
echo "$out"
grep -q '^\[0\] sum 3$' <<< "$out"
grep -q '^\[1\] sum 3$' <<< "$out"
[ "$(grep -c 'typed error: ' <<< "$out")" = 2 ]
[ "$(grep -c 'elastic 1 after 3 steps' <<< "$out")" = 2 ]
out=$("$scratch/ronde/bin/ronde" run -np 2 --min-np 1 "$scratch/build/outside")
[ "$(grep -c 'elastic 1 after 3 steps' <<< "$out")" = 2 ]
