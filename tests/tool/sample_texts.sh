#!/bin/bash
# sample_texts.sh SINTER CHECK-PAGE CHECK-TRACE SAMPLES: what the tool writes of each sample that has something to call:
# its trace, its report, what memory it leaves with a picture of that, each read by a strict reader.
set -uo pipefail
sinter=$1 page=$2 trace=$3 samples=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0 read=0
complain() { echo "$*" && failed=1; }

for program in "$samples"/*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    name=$(basename "$program")
    calls=2 && [ "$name" = gpt ] && calls=1
    if ! "$sinter" profile "$name" --warm=1 --calls=$calls --shapes --trace="$work/trace" --snapshot="$work/memory" \
        >"$work/table" 2>"$work/err"; then
        grep -q "gives nothing to call" "$work/err" || complain "profile $name: $(cat "$work/err")"
        continue
    fi
    read=$((read + 1))
    said=$("$trace" <"$work/trace") && grep -qE '^[1-9][0-9]* spans$' <<<"$said" || complain "trace of $name: $said"
    "$sinter" memory "$work/memory" --svg="$work/picture" >"$work/said" 2>&1 ||
        complain "memory of $name: $(cat "$work/said")"
    said=$("$page" <"$work/picture") || complain "picture of $name's memory: $said"
    "$sinter" report "$name" -o "$work/page" 2>"$work/err" || complain "report $name: $(cat "$work/err")"
    said=$("$page" <"$work/page") && grep -qE '^[1-9][0-9]* kernels, .* [1-9][0-9]* times, ' <<<"$said" ||
        complain "report of $name: $said"
    [ "$name" != gpt ] || grep -qF '<p>native code of the library</p>' "$work/page" ||
        complain "gpt's page lacks native steps"
done
[ $read -ge 9 ] || complain "only $read samples were read"
echo "$read samples were read"
exit $failed
