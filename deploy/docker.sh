#!/usr/bin/env bash
# Makes sure that a Docker engine answers, and takes away what it started.
#
#   deploy/docker.sh start   installs Docker where it is missing, starts an engine where none answers
#   deploy/docker.sh stop    stops the engine that `start` started, and no other
#   deploy/docker.sh status  says whether an engine answers, and whose it is
#
# An engine that was there before is used as it is and never stopped.
set -euo pipefail

readonly state="${BERTH_ENGINE_STATE:-/run/berth-engine}"
readonly pidfile="$state/dockerd.pid"
readonly log="$state/dockerd.log"
# What Debian's packages ask whether they may start services.
readonly policy=/usr/sbin/policy-rc.d

say() { printf 'docker.sh: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

answers() { timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

# The pid file alone proves nothing: after a restart of the machine the number may be another's.
started_here() {
  [[ -s $pidfile ]] || return 1
  [[ $(cat "/proc/$(cat "$pidfile")/comm" 2>/dev/null) == dockerd ]]
}

have_compose() { command -v docker-compose >/dev/null || docker compose version >/dev/null 2>&1; }

missing_packages() {
  command -v dockerd >/dev/null || echo docker.io
  # An engine of Debian's docker.io programs the firewall through this; it is only a recommendation there.
  command -v iptables >/dev/null || echo iptables
  have_compose || echo docker-compose
}

install_packages() {
  local packages
  mapfile -t packages < <(missing_packages)
  ((${#packages[@]})) || return 0
  ((EUID == 0)) || die "missing ${packages[*]}, and only root can install them"
  command -v apt-get >/dev/null || die "missing ${packages[*]}, and this machine has no apt-get"
  say "installing ${packages[*]}"
  # The package lists may be older than what the mirror still has, or not be there at all.
  apt-get update -qq >/dev/null
  if [[ -d /run/systemd/system || -e $policy ]]; then apt_install "${packages[@]}"; else start_no_service apt_install "${packages[@]}"; fi
}

apt_install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }

# Without systemd the package would start an engine by its init script, which `stop` would not know.
start_no_service() {
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  local status=0
  "$@" || status=$?
  rm -f "$policy"
  return "$status"
}

launch() {
  ((EUID == 0)) || die "no engine answers, and only root can start one"
  mkdir -p "$state"
  # A session of its own: Ctrl-C must reach the caller, which then stops the engine in its own order.
  setsid dockerd --pidfile "$pidfile" >"$log" 2>&1 </dev/null &
}

await() {
  local i
  for ((i = 0; i < 120; i++)); do
    ! answers || return 0
    sleep 0.5
  done
  tail -n 30 "$log" >&2
  die "the engine did not answer within a minute; its log is $log"
}

start() {
  install_packages
  if answers; then
    say "an engine answers"
    return
  fi
  launch
  await
  say "started an engine (log: $log); stop it with: deploy/docker.sh stop"
}

stop() {
  started_here || { say "no engine of ours runs"; return; }
  local pid i
  pid=$(cat "$pidfile")
  kill -TERM "$pid"
  # It stops its containers first, each with up to ten seconds of grace.
  for ((i = 0; i < 120; i++)); do
    [[ -e /proc/$pid ]] || { rm -f "$pidfile"; say "stopped the engine"; return; }
    sleep 0.5
  done
  die "the engine (pid $pid) did not stop within a minute; its log is $log"
}

status() {
  answers || { say "no engine answers"; return 1; }
  if started_here; then say "our engine answers (pid $(cat "$pidfile"))"; else say "an engine answers that is not ours"; fi
}

case "${1:-}" in
  start | stop | status) "$1" ;;
  *) die "usage: deploy/docker.sh start|stop|status" ;;
esac
