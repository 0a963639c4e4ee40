#!/bin/bash
# output.sh SINTER: output that is not written, as on a full disk, is told, with the exit code of the environment.
set -euo pipefail
for command in ops --version --help; do
    code=0
    said=$("$1" $command 2>&1 >/dev/full) || code=$?
    [ $code -eq 3 ] || { echo "exit code $code of $command"; exit 1; }
    grep -q "the output cannot be written" <<<"$said" || { echo "$command says: $said"; exit 1; }
    "$1" $command >/dev/null || { echo "$command fails"; exit 1; }
done
