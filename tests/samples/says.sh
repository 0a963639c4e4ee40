#!/bin/bash
# says.sh PROGRAM [ARG...] -- PATTERN...: runs a sample, which must succeed, and looks for each pattern (extended regular
# expression, as grep -E) among the lines that it prints.
set -o pipefail
command=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do command+=("$1") && shift; done
[ $# -gt 1 ] || { echo "says.sh: no pattern"; exit 2; }
shift
output=$("${command[@]}") || { echo "${command[*]} failed: $output"; exit 1; }
printf '%s\n' "$output"
failed=0
for pattern in "$@"; do
    grep -qE -e "$pattern" <<<"$output" || { echo "no line has: $pattern" && failed=1; }
done
exit $failed
