#!/bin/bash
# gpt_resume.sh GPT: a training that stops half way and goes on in another process leaves the file of one that never
# stopped, byte by byte; files that are damaged or of another shape are refused by name.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
run() { "$1" --shape=tiny --steps 8 --compare 0 --generate 0 --json "${@:2}" >/dev/null; }
run "$1" --save "$dir/whole"
run "$1" --until 4 --save "$dir/half"
run "$1" --resume "$dir/half" --save "$dir/resumed"
cmp "$dir/whole" "$dir/resumed"
! cmp -s "$dir/whole" "$dir/half"
refuses() { # TEXT ARG...
    if "$gpt" --shape=tiny --compare 0 --generate 0 --steps 8 "${@:2}" >/dev/null 2>"$dir/err"; then echo "accepted ${*:2}" && exit 1; fi
    grep -q -- "$1" "$dir/err" || { echo "no '$1':" && cat "$dir/err" && exit 1; }
}
gpt=$1
head -c 1000 "$dir/half" >"$dir/short"
refuses "short" --resume "$dir/short"
refuses "no 'param.h2.norm1.weight'" --shape=small --resume "$dir/half"
refuses "more steps" --steps 2 --resume "$dir/half"
