#!/usr/bin/env bash
# Makes the packages for C++ users: a .deb and a .tar.gz with headers, libraries, the CMake package,
# the modules and the ronde command.
set -euo pipefail
usage() {
  cat <<'TEXT'
usage: bash packaging/cpp.sh [--output DIR]
  --output DIR  where the files go (default: dist/)
The .deb is for this Debian or Ubuntu release. The .tar.gz may be unpacked anywhere; it carries the
third-party libraries, and needs the glibc of this machine or a newer one.
TEXT
}
output=''
while [ $# -gt 0 ]; do
  case $1 in
    --output) output=${2:?--output needs a folder}; shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
# shellcheck source=packaging/tools.sh
source "$(dirname "${BASH_SOURCE[0]}")/tools.sh"
output=$(output_folder "$output")
build=$root/build/cpp
log=$work/cpp.log

# build_cpp: without tests and Python, and without debug information as in the wheel.
build_cpp() {
  local kind flags=()
  for kind in EXE SHARED MODULE; do flags+=("-DCMAKE_${kind}_LINKER_FLAGS=-Wl,--strip-debug"); done
  say "Building (log: build/packaging/cpp.log)"
  (set -o pipefail
    { cmake --preset release -B "$build" -DRONDE_BUILD_PYTHON=OFF -DRONDE_BUILD_TESTS=OFF \
      -DRONDE_BUILD_EXAMPLES=OFF -DRONDE_WERROR=OFF -DRONDE_LICENSES="$work/licenses/" -DRONDE_MPICH_ROOT="$work/mpich" "${flags[@]}" &&
      cmake --build "$build"; } 2>&1 | tee "$log" | show_steps) ||
    { tail -n 40 "$log" >&2; die "the build failed"; }
}

# needed_packages: the Debian packages of the libraries, as Depends; modules need theirs when used.
needed_packages() {
  rm -rf "$work/depends"
  mkdir -p "$work/depends/debian"
  : >"$work/depends/debian/control"
  (cd "$work/depends" && dpkg-shlibdeps -O "$build/bindings/cli/ronde" "$build"/bindings/cpp/libronde.so.*.* \
    2>>"$log") | sed 's/^shlibs:Depends=//'
}

# pack: both packages into $output.
pack() {
  local file
  rm -rf "$work/cpp" "$work/licenses"
  collect_licenses "$build/bindings" "$work/licenses/libraries"
  (cd "$build" && cpack -B "$work/cpp" -D CPACK_DEBIAN_PACKAGE_DEPENDS="$(needed_packages)") >>"$log" 2>&1 ||
    { tail -n 40 "$log" >&2; die "cpack failed"; }
  for file in "$work"/cpp/*.deb "$work"/cpp/*.tar.gz; do
    cp "$file" "$output/"
    say "$output/$(basename "$file"): $(size_of "$file")"
  done
  echo "    needs: $(dpkg-deb -f "$work"/cpp/*.deb Depends)"
}

prepare_machine
prepare_headers
build_cpp
pack
