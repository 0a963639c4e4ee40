#!/bin/bash
# saved.sh DIGITS INFER: what digits saves another program runs, by generated code and without the LLVM module: the same
# digest of the logits.
set -euo pipefail
file=$(mktemp -d)/digits.plan
trap 'rm -rf "$(dirname "$file")"' EXIT
field() { grep -oE "\"$1\": *(\"[^\"]*\"|[^,}]*)" <<<"$2" | sed -E 's/^"[^"]*": *//; s/"//g'; }
want=$(field logits "$("$1" --json --steps 200 --save "$file")")
[ "$want" != 0000000000000000 ] || { echo "no digest"; exit 1; }
check() { # PATH OUTPUT
    [ "$(field logits "$2") $(field path "$2") $(field rows_agree "$2")" = "$want $1 1" ] || { echo "want $want $1: $2"; exit 1; }
}
check compiled "$("$2" "$file" --json)"
check interpreted "$(SINTER_LLVM_MODULE=/ "$2" "$file" --json 2>"$file.err")"
grep -q 'no code is generated' "$file.err"
