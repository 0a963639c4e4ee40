#!/bin/bash
# check.sh PROGRAM [ARG...] -- CONDITION...: runs a program and checks fields of the JSON that it prints. A condition is
# "FIELD OP VALUE", OP one of == >= <=, for example "differing_values == 0"; texts are compared with ==. Of fields of the
# same name the first counts.
set -o pipefail
command=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do command+=("$1") && shift; done
[ $# -gt 1 ] || { echo "check.sh: no condition"; exit 2; }
shift
output=$("${command[@]}") || { echo "${command[*]} failed: $output"; exit 1; }
printf '%s\n' "$output"
failed=0
for condition in "$@"; do
    read -r field op want <<<"$condition"
    got=$(grep -m 1 -oE "\"$field\": *(\"[^\"]*\"|[^,}]*)" <<<"$output" | head -n 1 | sed -E 's/^"[^"]*": *//; s/"//g')
    awk -v got="$got" -v want="$want" -v op="$op" 'BEGIN {
        ok = op == "==" ? got == want : got != "" && (op == ">=" ? got + 0 >= want + 0 : op == "<=" && got + 0 <= want + 0)
        exit !ok
    }' || { echo "not so: $condition ($field is '$got')" && failed=1; }
done
exit $failed
