#!/usr/bin/env bash
# check_workflow.sh ROOT BUILD PAGE [PATTERN...]: runs the sh blocks of a page as a reader would, one after another from a
# folder that looks like ROOT with BUILD as build/; each must succeed, and what they print must have each pattern (grep -E).
set -euo pipefail
root=$1 build=$2 page=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for entry in "$root"/*; do [ "$(basename "$entry")" = build ] || ln -s "$entry" "$work/"; done
ln -s "$build" "$work/build"
awk '/^```sh$/ { n++; print "echo \"# block " n "\""; in_block = 1; next } /^```$/ { in_block = 0 } in_block' \
  "$root/$page" >"$work/commands.sh"
grep -q '^# block' <<<"$(sed -n 's/^echo "\(.*\)"$/\1/p' "$work/commands.sh")" || { echo "$page has no block" && exit 1; }
cd "$work"
output=$(bash -euo pipefail commands.sh 2>&1) || { printf '%s\n' "$output" && echo "$page: a command failed" && exit 1; }
printf '%s\n' "$output"
failed=0
for pattern in "$@"; do grep -qE -e "$pattern" <<<"$output" || { echo "no line has: $pattern" && failed=1; }; done
exit $failed
