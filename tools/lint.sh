#!/bin/sh
# gofmt, go vet and staticcheck over the whole module.
set -eu
cd "$(dirname "$0")/.."

unformatted=$(git ls-files -co --exclude-standard -z -- '*.go' | xargs -0 gofmt -l)
if [ -n "$unformatted" ]; then
	echo "lint: run gofmt -w on:" >&2
	echo "$unformatted" >&2
	exit 1
fi
go vet -tags containers ./...
go tool -modfile=tools/staticcheck/go.mod staticcheck -tags containers ./...
echo 'lint: clean'
