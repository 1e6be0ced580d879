#!/bin/sh
# Measures the queue and River, one after the other on the server that
# BERTH_DATABASE_URL names: bench-queue.json, and a table.
set -eu
cd "$(dirname "$0")/.."

go build -o bin/berth ./cmd/berth
(cd tools/riverbench && go build -o ../../bin/riverbench .)
bin/berth bench queue -o json "$@" >bench-queue.json
bin/riverbench >>bench-queue.json
bin/berth bench show bench-queue.json
