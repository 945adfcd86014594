#!/bin/sh
# Fills an environment each with the large peers that the long tests compare against: .venv-lerobot and .venv-lerobot033, the official
# LeRobot for datasets of v3.0 and of v2.1 (several gigabytes, since they bring torch; nothing is trained), and .venv-rerun. Where PyPI
# can not be reached the tests that need them skip. Safe to run twice. Usage: large-peers.sh [NAME...]
set -eu
[ $# -gt 0 ] || set -- lerobot lerobot033 rerun
for peer in "$@"; do
	want=tools/python/requirements-$peer.txt
	venv=.venv-$peer
	[ -x "$venv/bin/python" ] && cmp -s "$want" "$venv/requirements.txt" && continue
	[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
	sed -n "s/^\([A-Za-z].*\)\$/  installing into $venv: \1/p" "$want"
	if "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$want"; then
		cp "$want" "$venv/requirements.txt"
	else
		echo "  peers: $want could not be installed; the tests that need it will skip" >&2
	fi
done
