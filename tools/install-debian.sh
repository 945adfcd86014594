#!/bin/sh
# Installs the Debian packages of the given lists that are missing, and names each of them. Safe to run twice; works as root
# and through sudo. Usage: install-debian.sh LIST...
set -eu

fail() {
	echo "make: $1" >&2
	exit 1
}

missing=""
for list in "$@"; do
	while read -r name why; do
		case "$name" in '' | '#'*) continue ;; esac
		status=$(dpkg-query -W -f='${db:Status-Abbrev}' "$name" 2>/dev/null || true)
		case "$status" in
		ii*) ;;
		*)
			echo "  missing: $name ($why)"
			missing="$missing $name"
			;;
		esac
	done <"$list"
done
[ -n "$missing" ] || exit 0

command -v apt-get >/dev/null 2>&1 ||
	fail "this machine has no apt-get; install the packages named above with its own package manager, then run make again."
if [ "$(id -u)" -eq 0 ]; then
	as_root=""
elif command -v sudo >/dev/null 2>&1; then
	as_root="sudo"
else
	fail "installing packages needs root; run as root or install sudo, or ask an administrator for: apt-get install$missing"
fi

export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "  installing:$missing"
if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >"$log" 2>&1; then
	tail -n 5 "$log" >&2
	fail "apt-get update failed (last lines above); check the network and the package sources, then run make again."
fi
# shellcheck disable=SC2086 # one word for each package
if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing >"$log" 2>&1; then
	tail -n 15 "$log" >&2
	fail "apt-get install failed (last lines above); on Debian 12 and Ubuntu 24.04 all packages named here exist, so check the sources, then run make again."
fi
echo "  installed:$missing"
