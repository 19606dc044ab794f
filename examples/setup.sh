# Prepares a Debian or Ubuntu machine: packages, .venv/ at the repository root, ronde built into it.
# Sourced by examples/quickstart.sh and tests/run.sh. Reuses what is there; says what it does.
# Exit status 2: packages are missing and this user may not install them.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv

# The package and the presets are compiled alike, and share what one of them has compiled: by the
# same name of the compiler, for which scikit-build takes Python's, and by paths from here.
export CC=${CC:-cc} CXX=${CXX:-c++} CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$root

# What building and running needs, then what only the tests need.
build_packages=(g++ cmake ninja-build ccache libfmt-dev libspdlog-dev libcli11-dev
  nlohmann-json3-dev libsimdjson-dev libssl-dev libhwy-dev zlib1g-dev libyaml-cpp-dev
  libxxhash-dev)
test_packages=(doctest-dev libgloo-dev libopenmpi-dev openmpi-bin iproute2 nftables
  openssh-client openssh-server chromium doxygen slurmctld slurmd slurm-client munge)

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# usable_python PROGRAM: Python >= 3.9 that can make virtual environments and build extensions.
usable_python() {
  "$1" - 2>/dev/null <<'PY'
import os, sys, sysconfig
import ensurepip, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(0 if sys.version_info >= (3, 9) and os.path.exists(header) else 1)
PY
}

# find_python: prints a usable interpreter, the one on PATH first.
find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 /usr/bin/python3; do
    if [ -n "$candidate" ] && usable_python "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

# missing_packages NAME...: prints those that are not installed.
missing_packages() {
  local installed name
  installed=$(dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null |
    awk '$1 == "ii" {print $2}') || true  # fails where one is unknown
  for name in "$@"; do
    grep -qx -- "$name" <<<"$installed" || echo "$name"
  done
}

# install_packages NAME...: by apt, as root or through sudo; otherwise says the command, exits 2.
install_packages() {
  command -v dpkg-query >/dev/null || die "this set-up knows Debian and Ubuntu; elsewhere install\
 the libraries of README.md yourself and run: pip install ."
  local missing as_root=()
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null || ! { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
      echo "These Debian packages are missing; install them, then run this again:" >&2
      echo "  sudo apt-get install -y ${missing[*]}" >&2
      exit 2
    fi
    as_root=(sudo)
  fi
  say "Installing ${#missing[@]} Debian packages: ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq)
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null
}

# fingerprint_of TEXT...: a hash of standard input and the arguments.
fingerprint_of() { { cat; echo "$@"; } | sha256sum | cut -d' ' -f1; }

# up_to_date STAMP FINGERPRINT
up_to_date() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

# install_requirements FILE...: into .venv, by pip, only when a file has changed.
install_requirements() {
  local fingerprint stamp arguments=() file
  stamp=$venv/.requirements-$(basename "${!#}" .txt)-$(basename "$(dirname "${!#}")")
  fingerprint=$(cat "$@" | fingerprint_of "$venv")
  up_to_date "$stamp" "$fingerprint" && return 0
  for file in "$@"; do arguments+=(-r "$file"); done
  say "Installing Python packages: $(sed '/^ *\(#\|-\|$\)/d' "$@" | paste -sd' ')"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${arguments[@]}" ||
    return 1
  echo "$fingerprint" >"$stamp"
}

# installation_of PYTHON: its version and where it is installed, which its environments share.
installation_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2], sys.base_prefix)'; }

# make_venv: .venv with pip. Made anew where its interpreter is gone, or where PYTHON names another.
make_venv() {
  if "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    [ -n "${PYTHON:-}" ] || return 0
    [ "$(installation_of "$venv/bin/python")" != "$(installation_of "$python")" ] || return 0
    say "PYTHON=$PYTHON is another than that of .venv: $(installation_of "$venv/bin/python")"
  fi
  say "Making the virtual environment .venv"
  "$python" -m venv --clear "$venv"
}

# use_cmake: puts CMake >= 3.25 first on PATH, from pip where the system's is older.
use_cmake() {
  local version
  version=$(cmake --version | sed -n '1s/[^0-9]*//p')
  [ "$(printf '3.25\n%s\n' "$version" | sort -V | head -1)" = 3.25 ] && return 0
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'cmake>=3.25'
  PATH=$venv/bin:$PATH
}

# sources: name, size and time of each file that the package is built from.
sources() {
  (cd "$root" && find CMakeLists.txt pyproject.toml VERSION cmake core ops timeline backends \
    bindings -type f ! -name '*.pyc' -printf '%p %s %T@\n' | LC_ALL=C sort)
}

# show_steps: from the build's output, how far it is: in place on a terminal, else each quarter.
show_steps() {
  local line step='' steps quarter=0
  while IFS= read -r line; do
    [[ $line =~ \[([0-9]+)/([0-9]+)\] ]] || continue
    step=${BASH_REMATCH[1]} steps=${BASH_REMATCH[2]}
    if [ -t 1 ]; then
      printf '\r    step %d of %d' "$step" "$steps"
    elif [ $((4 * step / steps)) -gt "$quarter" ]; then
      quarter=$((4 * step / steps))
      printf '    step %d of %d\n' "$step" "$steps"
    fi
  done
  if [ -t 1 ] && [ -n "$step" ]; then echo; fi
}

# install_ronde [CUDA]: builds and installs the package into .venv when a source has changed. CUDA:
# AUTO or OFF, as CMake's RONDE_WITH_CUDA.
install_ronde() {
  local fingerprint stamp=$venv/.ronde log=$root/build/python-install.log
  local -x SKBUILD_CMAKE_DEFINE="${SKBUILD_CMAKE_DEFINE:+$SKBUILD_CMAKE_DEFINE;}RONDE_WITH_CUDA=${1:-AUTO}"
  fingerprint=$(sources |
    fingerprint_of "$(dpkg-query -W libopenmpi-dev libgloo-dev 2>/dev/null)" "${1:-AUTO}")
  up_to_date "$stamp" "$fingerprint" && return 0
  say "Building ronde into .venv (log: build/python-install.log)"
  mkdir -p "$root/build"
  rm -f "$stamp"
  if ! (set -o pipefail; "$venv/bin/python" -m pip install -v \
    --no-build-isolation --no-deps --force-reinstall --disable-pip-version-check "$root" 2>&1 |
    tee "$log" | show_steps); then
    tail -n 40 "$log" >&2
    die "building ronde failed; the whole log is build/python-install.log"
  fi
  echo "$fingerprint" >"$stamp"
}

# install_tensorflow: for its tests alone; says so and goes on where it cannot be had.
install_tensorflow() {
  local log=$root/build/tensorflow-install.log
  mkdir -p "$root/build"
  (install_requirements "$root/tests/requirements-tensorflow.txt" 2>"$log") && return 0
  say "Skipping the tests of ronde.tensorflow: TensorFlow could not be installed:"
  tail -n 3 "$log"
}

# has_nvcc: whether the CUDA part can be built, as CMake looks for it.
has_nvcc() { command -v nvcc >/dev/null || [ -x "${CUDAToolkit_ROOT:-/usr/local/cuda}/bin/nvcc" ]; }

# cuda_part [tests]: AUTO where tests or a device can use it, else OFF: it takes a fifth of the time.
cuda_part() { if [ "${1:-}" = tests ] || [ -e /dev/nvidiactl ]; then echo AUTO; else echo OFF; fi; }

# set_up [tests]: everything, so that .venv/bin/ronde and 'import ronde' work afterwards.
set_up() {
  local packages=("${build_packages[@]}") requirements=("$root/examples/requirements.txt")
  if [ "${1:-}" = tests ]; then
    packages+=("${test_packages[@]}")
    requirements+=("$root/docs/requirements.txt" "$root/tests/requirements.txt")
  fi
  python=$(find_python) || packages+=(python3 python3-venv python3-dev)
  install_packages "${packages[@]}"
  python=${python:-$(find_python)} || die "no usable Python >= 3.9 after installing python3"
  make_venv
  use_cmake
  install_requirements "${requirements[@]}"
  [ "${1:-}" != tests ] || install_tensorflow
  # NCCL's header: without it that backend is left out.
  if [ "${1:-}" = tests ] && has_nvcc; then
    install_requirements "$root/tests/gpu/requirements.txt"
  fi
  install_ronde "$(cuda_part "${1:-}")"
}
