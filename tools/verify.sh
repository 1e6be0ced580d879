#!/bin/sh
# Fails where a generated file, or a go.mod, differs from what the tools make of
# the tree now.
set -eu
cd "$(dirname "$0")/.."

before=$(mktemp)
after=$(mktemp)
trap 'rm -f "$before" "$after"' EXIT

state() {
	{ git ls-files -co --exclude-standard -- '*.gen.go'; git ls-files -- '*go.mod' '*go.sum'; } | sort -u | xargs sha256sum
}

state >"$before"
tools/generate.sh
for module in . tools/controlplane tools/oapi-codegen tools/riverbench tools/staticcheck tools/velero; do
	(cd "$module" && go mod tidy)
done
state >"$after"
if ! diff "$before" "$after"; then
	echo 'verify: the files above were not up to date: run make generate and go mod tidy, and commit' >&2
	exit 1
fi
echo 'verify: everything generated is up to date'
