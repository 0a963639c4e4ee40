#!/bin/bash
# run.sh SINTER FILECHECK FILE: runs the file's "RUN:" lines; all must succeed. In a line %s is the file, %t a scratch
# file; `sinter` and `FileCheck` are the given programs, `not` turns success into failure and back. "RUN-TERMINAL:" lines
# need a pseudo-terminal, which not every machine has for everybody (no /dev/pts): there they are left out, and it is said.
set -o pipefail
SINTER=$1 FILECHECK=$2 FILE=$3
scratch=$(mktemp) && trap 'rm -f "$scratch"' EXIT
sinter() { "$SINTER" "$@"; }
FileCheck() { "$FILECHECK" "$@"; }
not() { ! "$@"; }
lines=$(grep -E '^# RUN(-TERMINAL)?: ' "$FILE") || { echo "$FILE has no RUN line"; exit 1; }
while IFS= read -r line; do
    kind=${line%%: *} command=${line#*: }
    command=${command//%s/\"\$FILE\"} command=${command//%t/\"\$scratch\"}
    if [ "$kind" = "# RUN-TERMINAL" ] && ! script -qec true /dev/null </dev/null >/dev/null 2>&1; then
        echo "left out, there is no pseudo-terminal here: $command"
        continue
    fi
    eval "$command" </dev/null || { echo "failed: $command"; exit 1; }
done <<<"$lines"
