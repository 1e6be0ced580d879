#!/bin/sh
# Regenerates everything that is generated, from the top of the repository.
set -eu
cd "$(dirname "$0")/.."

oapi_codegen() {
	go tool -modfile=tools/oapi-codegen/go.mod oapi-codegen "$@"
}

oapi_codegen -config tools/oapi-codegen/server.yaml openapi.yaml
oapi_codegen -config tools/oapi-codegen/client.yaml openapi.yaml
