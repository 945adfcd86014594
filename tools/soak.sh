#!/bin/sh
# Long runs: every test with PINCH_SOAK=1 (hundreds of kills, long sessions), then each fuzz target for FUZZTIME (default 10m).
set -eu
tools/large-peers.sh
tags=opencv,mujoco,blas,libav
PINCH_SOAK=1 go test -count=1 -timeout 0 -tags "$tags" ./...
go list -tags "$tags" ./... | while read -r pkg; do
	dir=$(go list -tags "$tags" -f '{{.Dir}}' "$pkg")
	grep -hos '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | sed 's/^func //' | while read -r target; do
		echo "== fuzz $pkg $target"
		go test -tags "$tags" -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-10m}" "$pkg" </dev/null
	done
done
