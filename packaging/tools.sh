# Functions that the scripts which make packages share. Sourced; $work holds what they make on their way.
# shellcheck shell=bash

# shellcheck source=examples/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../examples/setup.sh"
work=$root/build/packaging
venv=$work/venv
# The libraries of the modules. Those of CUDA are the machine's own.
module_packages=(libgloo-dev libopenmpi-dev)

# prepare_machine: the Debian packages, and Python.
prepare_machine() {
  install_packages "${build_packages[@]}" "${module_packages[@]}" binutils dpkg-dev xz-utils
  python=$(find_python) || die "no usable Python >= 3.9 with its headers on PATH"
  mkdir -p "$work"
}

# prepare_headers: NCCL's, and MPICH's in a prefix of its own: FindMPI would take its mpicc from PATH.
prepare_headers() {
  make_venv
  use_cmake
  if has_nvcc && ! compgen -G "$root/.venv/lib/python*/site-packages/nvidia/nccl" >/dev/null; then
    install_requirements "$root/tests/gpu/requirements.txt"
  fi
  [ -e "$work/mpich/include/mpi.h" ] && return
  say "Installing MPICH's headers"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --ignore-installed \
    --prefix "$work/mpich" 'mpich>=4.1'
}

# output_folder [DIR]: makes DIR (default: dist/) and prints its path.
output_folder() { mkdir -p "${1:-$root/dist}" && cd "${1:-$root/dist}" && pwd; }

# size_of FILE: in MB.
size_of() { awk -v bytes="$(stat -c %s "$1")" 'BEGIN {printf "%.1f MB", bytes / 1e6}'; }
