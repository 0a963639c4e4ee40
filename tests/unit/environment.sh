#!/usr/bin/env bash
# environment.sh PROGRAM: a program that has more rights than who starts it reads no variable of the environment.
# PROGRAM says which of its variables it sees; a copy that runs as another user sees none. Only root can make one.
set -euo pipefail
expect() { [ "$1" = "$2" ] || { echo "$3: '$1', not '$2'" && exit 1; }; }
export SINTER_THREADS=3 SINTER_LOGS_FILE=/dev/null
expect "$("$1")" "threads 3, foreign 0" "with its user's rights"
[ "$(id -u)" = 0 ] || { echo "only root can make a program that runs as another user" && exit 77; }
copy=$(mktemp /tmp/sinter-test-XXXXXX)
trap 'rm -f "$copy"' EXIT
cp "$1" "$copy"
chown nobody "$copy"
chmod 4755 "$copy"
said=$("$copy")
[ "$said" != "threads 3, foreign 0" ] || { echo "/tmp lets no program run as another user" && exit 77; }
expect "$said" "threads 0, foreign 1" "as another user"
