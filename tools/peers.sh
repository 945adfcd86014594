#!/bin/sh
# Fills the Python virtual environment .venv with the pinned peers that tests compare against. Where PyPI can not be reached it
# writes the reason to build/peers-missing, from where the tests that skip quote it, and succeeds. Safe to run twice.
set -eu
want=tools/python/requirements.txt
mkdir -p build
reason=build/peers-missing

unavailable() {
	echo "$1" >"$reason"
	echo "  peers: $1; the tests that need them will skip" >&2
	exit 0
}

if [ -x .venv/bin/python ] && cmp -s "$want" .venv/requirements.txt; then
	rm -f "$reason"
	exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
[ -x .venv/bin/python ] || python3 -m venv .venv >"$log" 2>&1 ||
	unavailable "python3 -m venv failed: $(tail -n 1 "$log")"
sed -n 's/^\([A-Za-z].*\)$/  installing into .venv: \1/p' "$want"
.venv/bin/python -m pip install -q --disable-pip-version-check -r "$want" >"$log" 2>&1 ||
	unavailable "pip install failed: $(grep -v '^ *$' "$log" | tail -n 1)"
cp "$want" .venv/requirements.txt
rm -f "$reason"
