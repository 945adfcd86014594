#!/bin/sh
# Says in one sentence what to do when Go is missing or cannot provide the version that go.mod asks for.
set -eu
want=$(sed -n 's/^go //p' go.mod)
command -v go >/dev/null 2>&1 || {
	echo "make: Go is not installed; get Go $want or newer from go.dev/dl, put it on the PATH and run make again." >&2
	exit 1
}
go version >/dev/null 2>&1 || {
	go version >&2 || true
	echo "make: this Go can not provide version $want that go.mod asks for; install Go $want or newer from go.dev/dl and run make again." >&2
	exit 1
}
