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

# elf_files DIR: the programs and libraries in it, without objects.
elf_files() {
  find "$1" -type f -size +1k ! -name '*.o' -print0 | while IFS= read -r -d '' file; do
    [ "$(head -c 4 "$file" | tr -d '\0')" != $'\x7fELF' ] || echo "$file"
  done
}

# linked_packages DIR: Debian packages whose libraries its programs load, without the C and C++ ones.
linked_packages() {
  local file path
  while IFS= read -r file; do ldd "$file"; done < <(elf_files "$1" | grep -v '/libronde_') |
    awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | while IFS= read -r path; do
      dpkg-query -S "$path" "$(readlink -f "$path")" 2>/dev/null || true
    done | cut -d: -f1 | grep -vxE 'libc6|libstdc\+\+6|libgcc-s1'
}

# collect_licenses DIR TARGET: copies the licences of the libraries in the programs of DIR: of those
# that are loaded, and of those that are compiled in.
collect_licenses() {
  local package
  mkdir -p "$2"
  for package in $(linked_packages "$1") $(printf '%s\n' "${build_packages[@]}" | grep -e '-dev$'); do
    cp "/usr/share/doc/$package/copyright" "$2/$package.txt"
  done
}
