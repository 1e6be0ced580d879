#!/bin/sh
# gofmt, go vet and staticcheck over the whole module, and no lock of a session.
set -eu
cd "$(dirname "$0")/.."

unformatted=$(git ls-files -co --exclude-standard -z -- '*.go' | xargs -0 gofmt -l)
if [ -n "$unformatted" ]; then
	echo "lint: run gofmt -w on:" >&2
	echo "$unformatted" >&2
	exit 1
fi
# A lock of a session outlives its client behind a transaction-pooling pgbouncer.
if git grep -nE 'pg_(try_)?advisory_(lock|unlock)' -- '*.go' '*.sql' ':!db/dbtest'; then
	echo 'lint: take advisory locks for a transaction (pg_advisory_xact_lock)' >&2
	exit 1
fi
go vet -tags containers,velero ./...
(cd tools/riverbench && go vet ./...)
go tool -modfile=tools/staticcheck/go.mod staticcheck -tags containers,velero ./...
echo 'lint: clean'
