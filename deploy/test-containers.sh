#!/usr/bin/env bash
# Everything that needs containers, from nothing: an engine, the images, the db suite on Postgres 18 in a container
# (testcontainers), and the five-backup demo against docker-compose.yml with a cluster of its own. Takes all of it
# down again, also on failure and Ctrl-C; an engine that ran before stays.
#
#   deploy/test-containers.sh [db|demo ...]    default: both
#
# BERTH_ETCD, BERTH_KUBE_APISERVER    static binaries for the demo; else KUBEBUILDER_ASSETS, else devenv's
# BERTH_BINARY                        Berth's own, static; else it is built
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
readonly deploy=$root/deploy

say() { printf '\ntest-containers.sh: %s\n' "$*" >&2; }

# Names, ports and files of this run alone: a Berth that somebody runs on the same machine is not touched.
export BERTH_TEST_RUN="berth-test-$$"
export COMPOSE_PROJECT_NAME=$BERTH_TEST_RUN
export BERTH_IMAGE=berth:$BERTH_TEST_RUN
export BERTH_CONCURRENT_BACKUPS=2
state=$(mktemp -d)
readonly state
export BERTH_DEMO_STATE=$state
export BERTH_KUBECONFIG_FILE=$state/kubeconfig
engine_is_ours=no
composed=no

compose() { "$deploy/compose.sh" --profile demo "$@"; }

# --- taking down ---

# A test process that was killed could not remove its containers.
remove_test_containers() {
  local left
  mapfile -t left < <(docker ps --all --quiet --filter "label=berth-backup.test-run=$BERTH_TEST_RUN")
  ((${#left[@]} == 0)) || docker rm --force --volumes "${left[@]}" >/dev/null
}

# What the demo says of itself comes last, where it is read first.
last_words() {
  say "failed; the containers' last words:"
  compose ps
  compose logs --no-color --tail=50 etcd kube-apiserver
  compose logs --no-color --tail=200 postgres berth-migrate berth-server berth-worker
  [[ ! -e $state/demo.log ]] || { say "the demo's last words:"; tail -n 40 "$state/demo.log"; }
}

take_down() {
  local status=$?
  trap '' INT TERM
  # One step that fails must not keep the others from being tried.
  set +e
  if [[ $composed == yes ]]; then
    # Whoever pressed Ctrl-C did not ask what went wrong.
    ((status == 0 || status == 130)) || last_words >&2
    compose down --volumes --remove-orphans --timeout 20 >/dev/null 2>&1 || { say "compose down failed"; status=1; }
  fi
  if docker info >/dev/null 2>&1; then
    remove_test_containers
    docker image rm --force "$BERTH_IMAGE" >/dev/null 2>&1
  fi
  [[ $engine_is_ours == no ]] || "$deploy/docker.sh" stop
  rm -rf "$state"
  exit "$status"
}

# --- building up ---

ensure_engine() {
  "$deploy/docker.sh" status 2>/dev/null || engine_is_ours=yes
  "$deploy/docker.sh" start
}

# Prints the paths of etcd and kube-apiserver, a line each.
control_plane() {
  if [[ -n ${BERTH_ETCD:-} && -n ${BERTH_KUBE_APISERVER:-} ]]; then
    printf '%s\n' "$BERTH_ETCD" "$BERTH_KUBE_APISERVER"
  elif [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
    printf '%s\n' "$KUBEBUILDER_ASSETS/etcd" "$KUBEBUILDER_ASSETS/kube-apiserver"
  else
    (cd "$root" && go run ./internal/devenv/controlplane)
  fi
}

demo_images() {
  local output paths
  output=$(control_plane)
  mapfile -t paths <<<"$output"
  "$deploy/images.sh" demo "${paths[@]}"
  "$deploy/images.sh" berth ${BERTH_BINARY:+"$BERTH_BINARY"}
}

free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 10000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
}

await_ok() {
  local url=$1 i
  for ((i = 0; i < 120; i++)); do
    # The demo's API server has a certificate of its own making; this asks for no more than a sign of life.
    ! curl --insecure --silent --fail --output /dev/null --max-time 5 "$url" || return 0
    sleep 0.5
  done
  say "$url was not ready within a minute"
  return 1
}

# Everything but the worker: the demo posts its backups first, then starts it.
compose_up() {
  BERTH_HTTP_PORT=$(free_port)
  BERTH_DEMO_API_PORT=$(free_port)
  export BERTH_HTTP_PORT BERTH_DEMO_API_PORT
  "$deploy/demo/init.sh"
  composed=yes
  compose up --detach --scale berth-worker=0
  await_ok "https://127.0.0.1:$BERTH_DEMO_API_PORT/readyz"
  await_ok "http://127.0.0.1:$BERTH_HTTP_PORT/readyz"
}

# --- the tests ---

# The address of Postgres on the network of the containers, which the host reaches: it is published nowhere.
postgres_address() {
  docker inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$(compose ps --quiet postgres)"
}

# The five-backup demo. It finds the API, the cluster, the events, the archives and the way to start the worker in its
# environment.
run_demo() {
  cd "$root"
  BERTH_DEMO_URL=http://127.0.0.1:$BERTH_HTTP_PORT \
    BERTH_DEMO_KUBECONFIG=$state/kubeconfig-host \
    BERTH_DEMO_DATABASE_URL="postgres://berth:berth@$(postgres_address):5432/berth?sslmode=disable" \
    BERTH_DEMO_DATA=$(docker volume inspect --format '{{.Mountpoint}}' "${COMPOSE_PROJECT_NAME}_data") \
    BERTH_DEMO_START_WORKER="$deploy/compose.sh --profile demo up --detach berth-worker" \
    go run ./internal/devenv/demo -against compose 2>&1 | tee "$state/demo.log"
}

test_db() {
  say "the db suite on Postgres 18 in a container"
  "$deploy/images.sh" postgres
  # Random histories for minutes show nothing of containers.
  (cd "$root" && BERTH_TEST_POSTGRES=container go test -race -count=1 -skip '^(TestQueueMachine|TestConcurrentQueue.*|TestMany.*|TestEightProcesses.*)$' -tags containers ./db/...)
}

test_demo() {
  say "the demo on compose"
  "$deploy/images.sh" postgres
  demo_images
  compose_up
  (run_demo)
}

main() {
  (($#)) || set -- db demo
  trap take_down EXIT
  # A signal ends the command that runs, and then this.
  trap 'exit 130' INT
  trap 'exit 143' TERM
  ensure_engine
  local part
  for part in "$@"; do
    case "$part" in
      db) test_db ;;
      demo) test_demo ;;
      *) say "usage: deploy/test-containers.sh [db|demo ...]"; exit 2 ;;
    esac
  done
  say "all passed: $*"
}

main "$@"
