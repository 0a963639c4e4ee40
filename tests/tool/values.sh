#!/bin/bash
# values.sh SINTER LIBRARY: `sinter dump --values`: texts of functions and of training steps with the values of their
# inputs run again to the digests that the target itself gave.
set -uo pipefail
sinter=$1 library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() { echo "$*" && failed=1; }
digests() { sed -n 's/^# result [0-9]*: \(.*\) \([0-9a-f]*\)$/\1 \2/p' "$1"; }
again() { "$sinter" run "$@" --json | grep -o '"type": "[^"]*", "value": [^,]*, "digest": "[0-9a-f]*"' | sed 's/"type": "\([^"]*\)".*"digest": "\(.*\)"/\1 \2/'; }

for target in hello digits gpt "$library:forward" "$library:train" "$library:graph"; do
    "$sinter" dump "$target" --values="$work/f.safetensors" >"$work/f.sn" || complain "$target is not dumped"
    wanted=$(digests "$work/f.sn")
    [ -n "$wanted" ] || complain "$target: no result is noted"
    modes="verify eager"
    [ "$target" = hello ] && modes="verify replay eager"
    [ "$target" = gpt ] && modes=verify
    for mode in $modes; do
        [ "$(again "$work/f.sn" --mode=$mode)" = "$wanted" ] || complain "$target, $mode: $(again "$work/f.sn" --mode=$mode), not $wanted"
    done
done
# A step's parameters require gradients, and what they become is the same in all ways.
"$sinter" dump "$library:train" --values="$work/f.safetensors" >"$work/f.sn"
grep -q '^# requires_grad closed0$' "$work/f.sn" || complain "the parameter is not noted: $(head -4 "$work/f.sn")"
grep -q 'sn::gradients' "$work/f.sn" || complain "the step has no backward"
"$sinter" verify "$work/f.sn" >"$work/said" || complain "verify: $(cat "$work/said")"
[ "$("$sinter" opt "$work/f.sn")" = "$(grep -v '^#' "$work/f.sn")" ] || complain "the text does not parse to itself"
# Without the flag there is no gradient to ask for.
sed '/^# requires_grad/d' "$work/f.sn" >"$work/plain.sn"
"$sinter" run "$work/plain.sn" >/dev/null 2>"$work/err" && complain "no tensor requires gradients, and it runs"
# Other values, another digest.
"$sinter" dump hello --values="$work/g.safetensors" >"$work/g.sn"
cp "$work/g.safetensors" "$work/f.safetensors"
"$sinter" run "$work/f.sn" --json >/dev/null 2>"$work/err" && complain "values of another graph are taken"
grep -q "input 'x0' is f32.4,8., its values are f32.32,64." "$work/err" || complain "it does not say which: $(cat "$work/err")"
rm "$work/g.safetensors"
"$sinter" run "$work/g.sn" >/dev/null 2>"$work/err"
[ $? -ne 0 ] && grep -q "g.safetensors" "$work/err" || complain "the file is not there: $(cat "$work/err")"
"$sinter" dump hello --stage=loops --values="$work/h.safetensors" >/dev/null 2>"$work/err"
[ $? -eq 2 ] && grep -q "about the stage capture, not 'loops'" "$work/err" || complain "another stage: $(cat "$work/err")"
"$sinter" dump newton --values="$work/h.safetensors" >/dev/null 2>"$work/err"
[ $? -eq 1 ] && grep -q "more than a graph" "$work/err" || complain "a call that breaks: $(cat "$work/err")"
"$sinter" dump hello --values="$work/none/h.safetensors" >/dev/null 2>"$work/err"
[ $? -eq 3 ] || complain "no folder: $(cat "$work/err")"
exit $failed
