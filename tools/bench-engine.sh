#!/bin/sh
# Measures backups beside a bare list of the same objects and beside stock Velero,
# on a Postgres whose commits reach the disk, a real API server and a bucket in
# memory; the arguments are those of berth bench engine.
set -eu
cd "$(dirname "$0")/.."

velero=$(go run ./internal/devenv/velero)
CGO_ENABLED=0 go build -trimpath -o bin/berth ./cmd/berth
exec go run ./internal/devenv/run -durable -bucket -- sh -c '
	velero=$1 plugins=$2
	shift 2
	bin/berth bench engine --kubeconfig "$BERTH_KUBECONFIG" --velero "$velero" --velero-plugins "$plugins" -o json "$@" >bench-engine.json
' bench-engine $velero "$@"
