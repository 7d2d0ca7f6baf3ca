#!/bin/sh
# Starts ranks on two hosts: network namespaces of their own, joined by a virtual cable.
#
#   sh two_hosts.sh RANKS PROGRAM [ARGUMENT...]
#
# With MESH_RATE, as tc spells rates (1gbit), the cable carries no more than that, each way.
#
# Exits with 77 where namespaces cannot be made or Open MPI is not there. Programs find the name of
# their host's end of the cable in MESH_LINK.
set -eu

if [ "${1:-}" = --on-other-host ]; then
  # What mpirun calls to start its daemon: HOST COMMAND...
  shift 2
  exec ip netns exec "$MESH_OTHER" unshare --uts \
    sh -c 'hostname "$MESH_OTHER"; export MESH_LINK=$MESH_OTHER; exec sh -c "$0"' "$*"
fi

ranks=$1
shift
one=mesh$$a
other=mesh$$b
agent=$(mktemp)
tidy() {
  rm -f "$agent"
  for host in "$one" "$other"; do
    # A daemon that is cut off from its launcher does not know that all is over.
    ip netns pids "$host" 2>/dev/null | xargs -r kill -9 || true
    ip netns del "$host" 2>/dev/null || true
  done
}
trap tidy EXIT
trap 'exit 1' INT TERM

skip() {
  echo "two hosts cannot be simulated here: $1"
  exit 77
}
{ mpirun --version 2>/dev/null || true; } | grep -q "Open MPI" || skip "there is no Open MPI"
unshare --uts true 2>/dev/null || skip "no namespaces may be made"
{ ip netns add "$one" && ip netns add "$other" &&
  ip link add "$one" netns "$one" type veth peer name "$other" netns "$other"; } 2>/dev/null ||
  skip "no network namespaces may be made"
ip -n "$one" address add 10.77.0.1/24 dev "$one"
ip -n "$other" address add 10.77.0.2/24 dev "$other"
for host in "$one" "$other"; do
  ip -n "$host" link set "$host" up
  ip -n "$host" link set lo up
  [ -z "${MESH_RATE:-}" ] ||
    ip netns exec "$host" tc qdisc add dev "$host" root tbf rate "$MESH_RATE" burst 256kb latency 200ms
done

printf '#!/bin/sh\nexec sh "%s" --on-other-host "$@"\n' "$(realpath "$0")" >"$agent"
chmod +x "$agent"
each=$((ranks / 2))
export MESH_OTHER="$other" MESH_ONE="$one"
# The launcher has to miss a host before ranks end the job, 2 s after the cable is cut: what it then sends
# there, and nobody acknowledges, keeps TCP from probing.
ip netns exec "$one" unshare --uts sh -c \
  'hostname "$MESH_ONE"; export MESH_LINK=$MESH_ONE; exec "$@"' - \
  mpirun --allow-run-as-root --oversubscribe -n "$ranks" \
  --host "10.77.0.1:$each,10.77.0.2:$each" --mca plm_rsh_agent "$agent" \
  --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 \
  --mca oob_tcp_keepalive_time 1 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 1 \
  "$@"
