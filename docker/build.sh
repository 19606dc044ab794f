#!/usr/bin/env bash
# Builds the image of docker/Dockerfile where no image registry can be reached.
set -euo pipefail
usage() {
  cat <<'TEXT'
usage: bash docker/build.sh [--tag NAME] [BUILDAH-OPTION...]
  --tag NAME  the image's name (default: ronde)
Needs root. Runs docker/Dockerfile by buildah with chroot isolation, on a base that debootstrap makes
of this release of Debian or Ubuntu. Mirror and package index are those of this machine's apt and pip.
TEXT
}
tag=ronde
case ${1:-} in
  -h | --help) usage; exit 0 ;;
  --tag) tag=${2:?--tag needs a name}; shift 2 ;;
esac
# shellcheck source=examples/setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/../examples/setup.sh"
base=localhost/ronde-base
inside=/run/host  # this machine's files that pip reads lie below this folder while the image is built

# apt_sources: lines of sources.list, of this release's own archives.
apt_sources() {
  apt-get indextargets --format '$(ORIGIN) deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
    'Created-By: Packages' | sed -nE 's/^(Debian|Ubuntu) //p' | sort -u
}

# make_base: an image of the smallest Debian.
make_base() {
  local container folder codename mirror
  buildah inspect --type image "$base" >/dev/null 2>&1 && return
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mirror=$(apt_sources | awk -v name="$codename" '$3 == name {print $2; exit}')
  [ -n "$mirror" ] || die "apt knows no archive of $codename; run: apt-get update"
  say "Making the base of $codename (log: build/image/base.log)"
  container=$(buildah from scratch)
  folder=$(buildah mount "$container")
  debootstrap --variant=minbase "$codename" "$folder" "$mirror" >"$work/base.log" 2>&1 ||
    { tail -n 20 "$work/base.log" >&2; buildah rm "$container" >/dev/null; die "debootstrap failed"; }
  apt_sources >"$folder/etc/apt/sources.list"
  rm -rf "$folder"/var/cache/apt/archives/*.deb
  buildah umount "$container" >/dev/null
  buildah commit --quiet --rm "$container" "$base" >/dev/null
}

# pip_settings: a pip.conf with this machine's settings; the environment's count last.
pip_settings() {
  echo '[global]'
  "$python" -m pip config list | sed -nE "s/^(global|user|site|:env:)\.([a-z-]+)='(.*)'$/\2 = \3/p" |
    sed 's/\\n/ /g' | awk '{last[$1] = $0} END {for (key in last) print last[key]}'
}

# host_paths FILE: this machine's files and folders that are named in it.
host_paths() {
  local path
  grep -oE '(^| |file://)/[^ ]+' "$1" | sed -E 's#^ *(file://)?##' | sort -u |
    while IFS= read -r path; do if [ -e "$path" ]; then echo "$path"; fi; done
}

# mounted: reads paths, prints what must be mounted for them. An index links to what lies beside it.
mounted() {
  local path
  while IFS= read -r path; do
    if [ -d "$path" ]; then dirname "$path"; else echo "$path"; fi
  done | sort -u
}

# build_image OPTION...: each step of the Dockerfile.
build_image() {
  local path paths mounts=()
  rm -f "$work/pip.conf"
  (umask 077 && pip_settings >"$work/pip.conf")  # an index's address may hold a password
  paths=$(host_paths "$work/pip.conf")
  for path in $(mounted <<<"$paths"); do mounts+=(--volume "$path:$inside$path:ro"); done
  for path in $paths; do sed -i -E "s#( |file://)$path( |\$)#\1$inside$path\2#g" "$work/pip.conf"; done
  say "Building the image $tag (log: build/image/build.log)"
  buildah build --isolation chroot --build-arg BASE="$base" --secret id=pip,src="$work/pip.conf" \
    "${mounts[@]}" --ignorefile "$root/docker/Dockerfile.dockerignore" -f "$root/docker/Dockerfile" \
    --tag "$tag" "$@" "$root" >"$work/build.log" 2>&1 ||
    { tail -n 40 "$work/build.log" >&2; die "the build failed; the whole log is build/image/build.log"; }
}

[ "$(id -u)" = 0 ] || die "chroot isolation needs root"
install_packages buildah debootstrap
python=$(find_python) || die "no usable Python >= 3.9 with its headers on PATH"
work=$root/build/image
mkdir -p "$work"
make_base
build_image "$@"
say "Built $tag. To train with two ranks:"
echo "    container=\$(buildah from $tag)"
echo "    buildah run --isolation chroot \$container -- ronde run -np 2 -- python examples/train_digits.py"
