#!/bin/sh
# Fills .venv-lerobot with the official LeRobot package, which the long tests of the dataset load our datasets with. Several
# gigabytes, since it brings torch; nothing is trained. Where PyPI can not be reached the tests that need it skip. Safe to run twice.
set -eu
want=tools/python/requirements-lerobot.txt
[ -x .venv-lerobot/bin/python ] && cmp -s "$want" .venv-lerobot/requirements.txt && exit 0
[ -x .venv-lerobot/bin/python ] || python3 -m venv .venv-lerobot
sed -n 's/^\([A-Za-z].*\)$/  installing into .venv-lerobot: \1/p' "$want"
.venv-lerobot/bin/python -m pip install -q --disable-pip-version-check -r "$want" || {
	echo "  peers: $want could not be installed; the tests that need it will skip" >&2
	exit 0
}
cp "$want" .venv-lerobot/requirements.txt
