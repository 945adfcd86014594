#!/bin/sh
# Runs every test: formatting and vet, the pure pass without cgo, the native parts with their tags, and the race detector on the
# concurrent packages. Stops at the first part that fails. Usage: test.sh
set -eu
tags=opencv,mujoco,blas,libav,xla

say() { printf '\n== %s\n' "$1"; }

say "gofmt"
unformatted=$(git ls-files -z '*.go' | xargs -0 gofmt -l)
if [ -n "$unformatted" ]; then
	echo "$unformatted"
	echo "make: these files are not formatted; run gofmt -w on them." >&2
	exit 1
fi

say "go vet, pure and native"
CGO_ENABLED=0 go vet ./...
go vet -tags "$tags" ./...

say "pure pass: no cgo, no tags"
CGO_ENABLED=0 go test -timeout 15m ./...

# A package belongs to the native pass when a tag changes its files, and so do the end-to-end tests of the programs.
say "native pass: -tags $tags"
listing='{{.ImportPath}} {{.GoFiles}} {{.CgoFiles}} {{.TestGoFiles}} {{.XTestGoFiles}}'
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
CGO_ENABLED=0 go list -f "$listing" ./... | sort >"$tmp/pure"
go list -tags "$tags" -f "$listing" ./... | sort >"$tmp/native"
# shellcheck disable=SC2046 # one word for each package
go test -timeout 15m -tags "$tags" $(comm -13 "$tmp/pure" "$tmp/native" | cut -d' ' -f1)

say "race detector: the concurrent packages"
race=$(sed -e '/^#/d' tools/race-packages.txt)
# shellcheck disable=SC2086
go test -timeout 15m -race -short $race

say "all tests passed"
