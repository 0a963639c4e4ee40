#!/bin/bash
# run.sh SINTER FILECHECK FILE: runs the file's "RUN:" lines; all must succeed. In a line %s is the file, %t a scratch
# file; `sinter` and `FileCheck` are the given programs, `not` turns success into failure and back.
set -o pipefail
SINTER=$1 FILECHECK=$2 FILE=$3
scratch=$(mktemp) && trap 'rm -f "$scratch"' EXIT
sinter() { "$SINTER" "$@"; }
FileCheck() { "$FILECHECK" "$@"; }
not() { ! "$@"; }
lines=$(sed -n 's/^# RUN: *//p' "$FILE")
[ -n "$lines" ] || { echo "$FILE has no RUN line"; exit 1; }
while IFS= read -r line; do
    command=${line//%s/$FILE} command=${command//%t/$scratch}
    eval "$command" </dev/null || { echo "failed: $command"; exit 1; }
done <<<"$lines"
