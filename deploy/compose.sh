#!/usr/bin/env bash
# Runs whichever compose this machine has, `docker compose` or docker-compose, on this repository's compose file.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if docker compose version >/dev/null 2>&1; then
  exec docker compose --file "$root/docker-compose.yml" "$@"
fi
exec docker-compose --file "$root/docker-compose.yml" "$@"
