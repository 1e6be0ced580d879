#!/usr/bin/env bash
# Builds the images that docker-compose.yml and the tests name. Nothing is fetched from an image registry but
# postgres:18, and where that cannot be pulled, a stand-in is built.
#
#   deploy/images.sh berth [BINARY]              berth:dev, from cmd/berth or from the static binary named
#   deploy/images.sh postgres                    postgres:18
#   deploy/images.sh demo ETCD KUBE_APISERVER    berth-demo/etcd and berth-demo/kube-apiserver, from static binaries
#
# BERTH_IMAGE         the name of Berth's image; default berth:dev
# BERTH_CA_BUNDLE     the certificates that go into it; default: this machine's
# BERTH_PULL_TIMEOUT  seconds for pulling postgres:18; default 60
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root

say() { printf 'images.sh: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# A build context with nothing in it but what the image needs: the tree's .dev and bin would be sent to the engine.
# Hard links where the file system allows, as the control plane's binaries are large.
put() { cp -lL "$1" "$2" 2>/dev/null || cp -L "$1" "$2"; }

# What the builder says matters only when it fails; else it is steps, and advice to install another builder.
build() {
  local output
  output=$(docker build "$@" 2>&1) || die "docker build $*: $output"
}

# A binary that wants a loader cannot start on scratch, and the engine's message for that is "no such file".
require_static() {
  [[ -f $1 && -x $1 ]] || die "$1 is not an executable file"
  # ldd's status tells nothing: it fails for static binaries.
  case "$(LC_ALL=C ldd "$1" 2>&1 || true)" in
    *"not a dynamic executable"* | *"statically linked"*) ;;
    *) die "$1 is not static: build it with CGO_ENABLED=0" ;;
  esac
}

ca_bundle() {
  local path
  for path in "${BERTH_CA_BUNDLE:-}" \
    /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
    [[ -z $path || ! -s $path ]] || { echo "$path"; return; }
  done
  die "found no CA bundle: install ca-certificates, or name one in BERTH_CA_BUNDLE"
}

compile_berth() {
  (cd "$root" && CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags "-s -w" -o "$1" ./cmd/berth)
}

image_berth() {
  local binary=${1:-} context=$root/bin/image name=${BERTH_IMAGE:-berth:dev}
  mkdir -p "$context/data"
  rm -f "$context/berth"
  if [[ -n $binary ]]; then put "$binary" "$context/berth"; else compile_berth "$context/berth"; fi
  require_static "$context/berth"
  cp -L "$(ca_bundle)" "$context/ca-certificates.crt"
  build --tag "$name" --file "$root/Dockerfile" \
    --build-arg VERSION="$(git -C "$root" describe --tags --always --dirty 2>/dev/null || echo unknown)" \
    --build-arg REVISION="$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)" "$context"
  say "built $name"
}

postgres_recipe() { cat "$root"/deploy/postgres/* | sha256sum | cut -c -16; }

# Says whose image postgres:18 is: "none", "theirs", or the recipe that ours was built from.
postgres_present() {
  local label
  label=$(docker image inspect --format '{{index .Config.Labels "berth-backup.recipe"}}' postgres:18 2>/dev/null) || { echo none; return; }
  echo "${label:-theirs}"
}

image_postgres() {
  local recipe present
  recipe=$(postgres_recipe)
  present=$(postgres_present)
  case "$present" in
    theirs | "$recipe") say "postgres:18 is there"; return ;;
    none) ! pull_postgres || return 0 ;;
  esac
  build_postgres "$recipe"
}

# A registry that is out of reach mostly says so at once; the limit is for a network that swallows packets.
pull_postgres() {
  timeout "${BERTH_PULL_TIMEOUT:-60}" docker pull --quiet postgres:18 >/dev/null 2>&1 || return 1
  say "pulled postgres:18"
}

# The root file system depends on its script alone, and outlives the engine's own cache.
postgres_rootfs() {
  local folder=${XDG_CACHE_HOME:-$HOME/.cache}/berth/images tar
  tar=$folder/postgres-18-$(sha256sum <"$root/deploy/postgres/rootfs.sh" | cut -c -16).tar
  if [[ ! -s $tar ]]; then
    rm -f "$folder"/postgres-18-*.tar
    "$root/deploy/postgres/rootfs.sh" "$tar"
  fi
  echo "$tar"
}

build_postgres() {
  local cached context
  cached=$(postgres_rootfs)
  context=$(mktemp -d)
  put "$cached" "$context/rootfs.tar"
  cp "$root/deploy/postgres/entrypoint.sh" "$context"
  build --tag postgres:18 --file "$root/deploy/postgres/Dockerfile" --build-arg RECIPE="$1" "$context"
  rm -rf "$context"
  say "built a stand-in for postgres:18"
}

image_demo() {
  (($# == 2)) || die "usage: deploy/images.sh demo ETCD KUBE_APISERVER"
  demo_program etcd "$1"
  demo_program kube-apiserver "$2"
}

demo_program() {
  local context
  require_static "$2"
  context=$(mktemp -d)
  put "$2" "$context/$1"
  build --tag "berth-demo/$1" --file "$root/deploy/demo/$1.Dockerfile" "$context"
  rm -rf "$context"
  say "built berth-demo/$1"
}

case "${1:-}" in
  berth | postgres | demo) "image_$1" "${@:2}" ;;
  *) die "usage: deploy/images.sh berth [BINARY] | postgres | demo ETCD KUBE_APISERVER" ;;
esac
