#!/bin/bash
# mpi_pods.sh SLOTS WORKER-COMMAND -- LAUNCHER-COMMAND: plays the pods of an MPIJob "ronde-train" in
# namespace "team" on this machine, as Kubeflow's MPI operator makes them. Two workers run
# WORKER-COMMAND, a shell's words; then the launcher's command runs here. Start it in mount, network,
# UTS and PID namespaces of its own.
set -euo pipefail
slots=$1 worker=$2
shift 3
job=ronde-train

# Files that a pod may change: its own layers over those of the image.
layer() {
  mkdir -p "/mnt/$2/upper" "/mnt/$2/work"
  mount -t overlay -o "lowerdir=$1,upperdir=/mnt/$2/upper,workdir=/mnt/$2/work" overlay "$1"
}
mount -t tmpfs files /mnt
layer /etc etc
layer /root root
mount -t tmpfs -o mode=755 run /run

{
  echo 127.0.0.1 localhost
  echo "10.78.0.254 $job-launcher.$job.team.svc $job-launcher"
  for n in 0 1; do echo "10.78.0.$((n + 1)) $job-worker-$n.$job.team.svc $job-worker-$n"; done
} > /etc/hosts
mkdir /etc/mpi
for n in 0 1; do echo "$job-worker-$n.$job.team.svc slots=$slots"; done > /etc/mpi/hostfile

# The Secret with the key of the job, as kubelet mounts it at /root/.ssh.
mkdir /root/.ssh
mount -t tmpfs -o mode=1777 key /root/.ssh
mkdir /root/.ssh/..2026
ssh-keygen -q -t ecdsa -b 521 -m PEM -N '' -C '' -f /root/.ssh/..2026/id_rsa
cp /root/.ssh/..2026/id_rsa.pub /root/.ssh/..2026/authorized_keys
chmod 600 /root/.ssh/..2026/*
ln -s ..2026 /root/.ssh/..data
for file in id_rsa id_rsa.pub authorized_keys; do ln -s "..data/$file" "/root/.ssh/$file"; done
mount -o remount,bind,ro /root/.ssh

hostname "$job-launcher"
ip link set lo up
ip link add br0 type bridge
ip address add 10.78.0.254/24 dev br0
ip link set br0 up
for n in 0 1; do
  ip netns add "$n"
  ip link add "worker$n" type veth peer name eth0 netns "$n"
  ip link set "worker$n" master br0 up
  ip -n "$n" address add "10.78.0.$((n + 1))/24" dev eth0
  ip -n "$n" link set eth0 up
  ip -n "$n" link set lo up
  ip netns exec "$n" unshare --uts sh -c 'hostname "$1"; mount -t tmpfs run /run; eval "$2"' \
    sh "$job-worker-$n" "$worker" &
done
# The readiness probe, which the launcher waits for.
for n in 0 1; do
  for _ in $(seq 200); do
    (exec 3<> "/dev/tcp/10.78.0.$((n + 1))/22") 2> /dev/null && continue 2
    sleep 0.1
  done
  echo "worker $n: nothing listens at port 22 after 20 s" >&2
  exit 1
done
exec "$@"
