#!/bin/bash
# `ronde run` over ssh: two "hosts" are network namespaces with an sshd each, a third starts the
# job. Usage: remote_test.sh RONDE_PROGRAM EXAMPLES_FOLDER ELASTIC_WORKER. Ends with 77 and the
# reason where this cannot be tried.
set -u
ronde=$1
examples=$2
worker=$3

skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "network namespaces and sshd need root"
for tool in ip ssh-keygen ssh; do command -v $tool > /dev/null || skip "$tool is not installed"; done
sshd=$(command -v sshd || ls /usr/sbin/sshd 2> /dev/null) || skip "sshd is not installed"
mark=rt$$
ip netns add ${mark}s 2> /dev/null || skip "network namespaces are not allowed here"

scratch=$(mktemp -d)
third=$((RANDOM % 250))
failures=0
sleep_seconds=$((100000 + $$))  # marks this run's processes
daemons=()

clean_up() {
  for pid in "${daemons[@]}"; do kill "$pid" 2> /dev/null; done
  for host in s a b; do
    for pid in $(ip netns pids $mark$host 2> /dev/null); do kill -9 "$pid" 2> /dev/null; done
    ip netns del $mark$host 2> /dev/null
  done
  rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 1' INT TERM

# Hosts a (10.99.X.1) and b (10.99.X.2) hang on a bridge in s (10.99.X.254), which starts the jobs.
ip -n ${mark}s link add br0 type bridge || skip "this kernel has no bridges"
ip -n ${mark}s addr add 10.99.$third.254/24 dev br0
ip -n ${mark}s link set br0 up
ip -n ${mark}s link set lo up
number=0
for host in a b; do
  number=$((number + 1))
  ip netns add $mark$host
  ip -n ${mark}s link add v$host type veth peer name eth0 netns $mark$host
  ip -n ${mark}s link set v$host master br0 up
  ip -n $mark$host addr add 10.99.$third.$number/24 dev eth0
  ip -n $mark$host link set eth0 up
  ip -n $mark$host link set lo up
done
A=10.99.$third.1
B=10.99.$third.2

port=2222
ssh-keygen -q -t ed25519 -N '' -f "$scratch/host_key"
ssh-keygen -q -t ed25519 -N '' -f "$scratch/user_key"
cp "$scratch/user_key.pub" "$scratch/authorized_keys"
chmod 600 "$scratch/authorized_keys"
# Remote shells find no start-up files: those of this user may do work that a kill must not interrupt
# (pyenv's leave a lock behind).
mkdir "$scratch/home"
cat > "$scratch/sshd_config" << EOF
SetEnv HOME=$scratch/home
Port $port
HostKey $scratch/host_key
AuthorizedKeysFile $scratch/authorized_keys
StrictModes no
UsePAM no
PidFile none
EOF
mkdir -p /run/sshd "$scratch/traces"
for host in a b; do
  # A disk of its own for traces: what ranks write there is not here.
  ip netns exec $mark$host sh -c 'mount -t tmpfs none "$1" && shift && exec "$@"' sh "$scratch/traces" "$sshd" -D -e -f "$scratch/sshd_config" 2>> "$scratch/sshd.log" &
  daemons+=($!)
done
for address in $A $B; do
  echo "[$address]:$port $(cut -d' ' -f1,2 "$scratch/host_key.pub")" >> "$scratch/known_hosts"
  for _ in $(seq 100); do
    ip netns exec ${mark}s bash -c "exec 3<>/dev/tcp/$address/$port" 2> /dev/null && break
    sleep 0.1
  done
done

# start NAMESPACE ARGUMENT...: runs `ronde run` with what ssh needs.
start() {
  local namespace=$1
  shift
  ip netns exec $mark"$namespace" "$ronde" run --ssh-port $port \
    --ssh-identity-file "$scratch/user_key" \
    --ssh-option "UserKnownHostsFile=$scratch/known_hosts" "$@"
}

# check NAME CONDITION...: counts and says what is not so.
check() {
  local name=$1
  shift
  if "$@"; then echo "ok: $name"; else
    echo "FAILED: $name"
    failures=$((failures + 1))
    tail -n 40 "$scratch"/out "$scratch"/err "$scratch"/sshd.log
  fi
}
has() { grep -q -- "$1" "$scratch/$2"; }

start s -np 3 -H $A:2,$B:1 sh -c 'echo rank $RANK of $WORLD_SIZE local $LOCAL_RANK of \
$LOCAL_WORLD_SIZE host $(ip -4 -o addr show eth0 | grep -o "10.99.[0-9]*.[0-9]*" | head -n 1) \
meets $RONDE_RENDEZVOUS $MASTER_ADDR; echo secret $(cat /proc/self/fd/$RONDE_SECRET_FD)' \
  > "$scratch/out" 2> "$scratch/err"
check "both hosts by ssh: the job succeeds" [ $? = 0 ]
check "rank 1 is the second on its host" has "\[1\] rank 1 of 3 local 1 of 2 host $A meets $A:[0-9]* $A" out
check "rank 2 runs on the other host" has "\[2\] rank 2 of 3 local 0 of 1 host $B meets $A:" out
check "all ranks have one secret" [ "$(grep -o 'secret [0-9a-f]\{64\}' "$scratch/out" | sort | uniq -c | awk '{print $1}')" = 3 ]

start s -np 3 -H $A:2,$B:1 --network-interface eth0 "$examples/06_raw_group" > "$scratch/out" 2> "$scratch/err"
check "ranks of both hosts add up" has "3 ranks summed 4 MiB .*; each element is 3" out
sent=$(ip netns exec ${mark}b cat /sys/class/net/eth0/statistics/tx_bytes)
start s -np 4 -H $A:2,$B:2 --network-interface eth0 "$examples/06_raw_group" > "$scratch/out" 2> "$scratch/err"
check "four ranks on two hosts add up" has "4 ranks summed 4 MiB .*; each element is 4" out
sent=$(($(ip netns exec ${mark}b cat /sys/class/net/eth0/statistics/tx_bytes) - sent))
# Two operations of 4 MiB: each host sends every byte once (2(m-1)/m), with a little around it.
check "a host sends each byte once, not once for each rank ($sent)" [ "$sent" -lt $((9 * 1024 * 1024 + 512 * 1024)) ]

start a -H $A:1,$B:1 --network-interface eth0 --env WORD="two words" \
  sh -c 'echo $RANK $RONDE_RENDEZVOUS "$WORD"; [ $RANK = 0 ] && sleep 1000; exit 9' > "$scratch/out" 2> "$scratch/err"
check "a failure on the other host ends the job with its status" [ $? = 9 ]
check "the failing rank is named with its host" has "rank 1 (pid [0-9]* on $B) exited with status 9" err
check "the interface chosen gives the address" has "\[1\] 1 $A:[0-9]* two words" out

start s -H $A:1,$B:1 sh -c 'echo pid=$$; [ $RANK = 1 ] && kill -9 $$; f=/proc/self/fd/$RONDE_EXIT_LOG_FD
until grep . $f; do sleep 0.01; done; sleep 1000' > "$scratch/out" 2> "$scratch/err"
check "a rank killed far away is told by its signal" [ $? = 137 ]
check "the other host's ranks can read how it ended" has "^\[0\] [0-9]* .* was killed by signal 9" out

start s -np 2 -H $A:1,$B:1 sh -c "setsid sleep $sleep_seconds & echo up; sleep $sleep_seconds" > "$scratch/out" 2> "$scratch/err" &
job=$!
for _ in $(seq 200); do [ "$(grep -c up "$scratch/out")" = 2 ] && break; sleep 0.1; done
launcher=$(pgrep -P $job -x ronde || echo $job)
check "the ranks are there before their launcher is killed" [ "$(pgrep -fc "sleep $sleep_seconds")" -ge 4 ]
kill -9 $launcher
wait $job 2> /dev/null
for _ in $(seq 100); do pgrep -f "sleep $sleep_seconds" > /dev/null || break; sleep 0.1; done
check "a killed launcher leaves no orphan on any host" [ -z "$(pgrep -f "sleep $sleep_seconds")" ]

start s -H $A:1,$B:1 --timeline "$scratch/traces/t.json" sh -c 'cat > ${RONDE_TIMELINE%.json}.rank$RANK.json << EOF
[{"ph":"M","args":{"start_time_since_epoch_in_micros":$((1000 + RANK))}},{"ph":"i","name":"of rank $RANK","ts":1}]
EOF' > "$scratch/out" 2> "$scratch/err"
check "a job whose ranks write traces on other hosts succeeds" [ $? = 0 ]
check "the traces of both hosts are fetched and merged" has "timeline of 2 ranks" err
check "the trace of rank 0 is there" grep -q "of rank 0" "$scratch/traces/t.json"
check "the trace of rank 1 is there" grep -q "of rank 1" "$scratch/traces/t.json"
start s -np 2 --min-np 2 -H $A:1,$B:1 --network-interface eth0 --timeline "$scratch/traces/e.json" \
  "$examples/07_elastic" > "$scratch/out" 2> "$scratch/err"
check "an elastic job of workers on other hosts succeeds" [ $? = 0 ]
check "the traces of its workers are fetched and merged" has "timeline of 2 workers in 1 epoch " err
check "both workers have a row" [ "$(grep -c '"process_name".*worker [12] (rank [01] in epoch 1' "$scratch/traces/e.json")" = 2 ]
check "the launcher's epochs are there" grep -q '"name":"epoch 1"' "$scratch/traces/e.json"

start s -H $A:1,$B:1 --remote-ronde /no/such/ronde true > "$scratch/out" 2> "$scratch/err"
check "a host without ronde is an error" [ $? = 1 ]
check "it names the host and the remedy" has "ronde is not installed on 10.99.$third.[12] as /no/such/ronde; install the same version there" err

version=$("$ronde" --version | grep -o '[0-9][0-9.]*' | head -n 1)
other=$(echo "$version" | tr 0-9 9)
sed "s/${version//./\\.}/$other/g" "$ronde" > "$scratch/other-ronde"
chmod +x "$scratch/other-ronde"
start s -H $A:1,$B:1 --remote-ronde "$scratch/other-ronde" true > "$scratch/out" 2> "$scratch/err"
check "a host with another version is an error" [ $? = 1 ]
check "it names both hosts and versions" has "10.99.$third.[12]: has ronde $other, but $(hostname) starts the job with $version; install the same version on both" err

start s -H no-such-host.invalid:1,$B:1 true > "$scratch/out" 2> "$scratch/err"
check "a name that does not resolve is an error" [ $? = 1 ]
check "it says how to try it by hand" has "no-such-host.invalid: ssh exited with status 255; \"ssh no-such-host.invalid true\" must work" err

start s -H $A:1,$B:1 --network-interface eth9 true > "$scratch/out" 2> "$scratch/err"
check "an interface that is not on rank 0's host is an error" [ $? = 1 ]
check "it names the host and those that are there" has "no network interface or own address \"eth9\" on $(hostname); there are: lo (127.0.0.1), eth0 ($A)" err
start s -H $A:1,$B:1 --network-interface lo true > "$scratch/out" 2> "$scratch/err"
check "a loopback interface between hosts is an error" [ $? = 1 ]
check "it names the host that cannot be reached by it" has "network-interface lo is 127.0.0.1 on $(hostname), which $B cannot reach" err

start s -H $A:1,10.99.$third.77:1 --start-timeout 3 --ssh-option ConnectTimeout=1 true > "$scratch/out" 2> "$scratch/err"
check "a host that does not answer is an error" [ $? = 1 ]
check "it is named" has "10.99.$third.77" err

# wait_for COUNT PATTERN FILE: until the file has so many lines with the pattern.
wait_for() {
  for _ in $(seq 300); do [ "$(grep -c -- "$2" "$scratch/$3")" -ge "$1" ] && return; sleep 0.1; done
}
mkdir "$scratch/elastic"
start s -np 4 --min-np 1 -H $A:2,$B:2 "$worker" "$scratch/elastic" > "$scratch/out" 2> "$scratch/err" &
job=$!
wait_for 4 "epoch 1 rank" out
check "an elastic job's workers on both hosts have one rendezvous" [ "$(grep -c "epoch 1 rank . of 4 .*meets <$A:" "$scratch/out")" = 4 ]
kill -9 "$(cat "$scratch/elastic/pid.3")"
wait_for 4 "epoch 3 rank" out
check "the others go on after a worker far away is killed" has "epoch 2: 3 of 4 workers go on; worker 3 (pid [0-9]* on $B) was killed by signal 9" err
check "it is replaced on its host" has "epoch 3: 3 of 3 workers go on, worker 5 joins" err
kill -9 "$(awk '/^PPid/ {print $2}' /proc/"$(cat "$scratch/elastic/pid.5")"/status)"
wait_for 1 "host $B is lost" err
check "a host whose agent is killed is lost" has "host $B is lost" err
wait_for 4 "epoch [45] rank . of 4" out
check "it gets workers again" has "epoch [45] rank 3 of 4" out
rm -f "$scratch"/elastic/saved.*  # of workers whose agent was killed
launcher=$(pgrep -P $job -x ronde || echo $job)
kill -9 $launcher
wait $job 2> /dev/null
for _ in $(seq 100); do pgrep -f "$scratch/elastic" > /dev/null || break; sleep 0.1; done
check "an elastic job whose launcher is killed leaves no worker" [ -z "$(pgrep -f "$scratch/elastic")" ]
check "its workers could save, also on other hosts" [ "$(ls "$scratch"/elastic/saved.* | wc -l)" = 4 ]

# A host is cut off, and comes back: no process of it may stay, and it is used again.
S=10.99.$third.254
mkdir "$scratch/cut"
start s -np 3 --min-np 1 -H $S:1,$A:1,$B:1 "$worker" "$scratch/cut" > "$scratch/out" 2> "$scratch/err" &
job=$!
wait_for 3 "epoch 1 rank" out
lost=$(cat "$scratch/cut/pid.3")
began=$SECONDS
ip -n ${mark}s link set vb down
wait_for 2 "epoch 2 rank . of 2" out
# Either the launcher misses the host or the workers miss its worker before.
check "the launcher's side goes on without a host that is cut off ($((SECONDS - began)) s)" has "epoch 2: 2 of 3 workers go on; \(host $B is lost: nothing was heard of it for 10 s\|worker [0-9]*: lost worker 3\)" err
for _ in $(seq 200); do kill -0 "$lost" 2> /dev/null || break; sleep 0.1; done
check "the other side's worker ends ($((SECONDS - began)) s)" [ ! -d /proc/"$lost" ]
check "it could save before" [ -f "$scratch/cut/saved.3" ]
ip -n ${mark}s link set vb up
wait_for 3 "epoch . rank . of 3" out
wait_for 6 "epoch . rank . of 3" out
check "a host that can be reached again is used again ($((SECONDS - began)) s)" has "epoch 3: 2 of 2 workers go on, worker [0-9]* joins" err
touch "$scratch/cut/finish"
wait $job
check "the job finishes" [ $? = 0 ]
check "no process stays on the host" [ -z "$(pgrep -f "$scratch/cut")" ]

[ $failures = 0 ]
