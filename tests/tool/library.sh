#!/bin/bash
# library.sh SINTER LIBRARY: every subcommand that takes a target takes a function of a library.
set -euo pipefail
target=$2:swiglu inputs=(--input 'f32[8,16]' --input 'f32[8,16]')
has() { grep -q -- "$1" <<<"$2" || { echo "no '$1' in: $2"; exit 1; }; }
has '"type": "f32\[8,16\]"' "$("$1" run "$target" "${inputs[@]}" --json)"
explained=$("$1" explain "$target" "${inputs[@]}")
has 'swiglu: 3 calls, 1 graph' "$explained"
has 'k0_silu_mul: aten::silu, aten::mul.Tensor; 1536 bytes' "$explained"
has 'aten::silu(%x0)' "$("$1" dump "$target" "${inputs[@]}" --stage=capture)"
has 'aten::silu_backward' "$("$1" dump "$target" "${inputs[@]}" --grad --stage=backward)"
! grep -q 'no generated code' <<<"$explained" || { echo "loop programs in: $explained"; exit 1; }
benched=$("$1" bench "$target" "${inputs[@]}" --json --seconds=0.05)
has '"kernels": 1' "$benched"
has '"compiled_share": 1' "$benched"
said=$(SINTER_LLVM_MODULE=/nowhere "$1" run "$target" "${inputs[@]}" --vary 2>&1 >/dev/null)
[ "$(grep -c 'no code is generated: /nowhere' <<<"$said")" = 1 ] || { echo "a missing module: $said"; exit 1; }
in_place=("$2:twice_in_place" --input 'f32[8]' --outputs=0)
has '"results": \[\]' "$("$1" run "${in_place[@]}" --json)"
has '"kernels": 1' "$("$1" bench "${in_place[@]}" --json --seconds=0.05)"
code=0
said=$("$1" run "$2:no_such_symbol" "${inputs[@]}" 2>&1) || code=$?
has no_such_symbol "$said"
[ $code -eq 3 ] || { echo "exit code $code for a missing symbol"; exit 1; }
text=$'graph f(%x: f32[4]) {\n  %0 = my::triple(%x)\n  return %0\n}'
[ "$("$1" opt - --library="$2" <<<"$text")" = "$text" ] || { echo "opt --library prints something else"; exit 1; }
code=0
said=$("$1" opt - <<<"$text" 2>&1) || code=$?
has "my::triple" "$said"
[ $code -eq 1 ] || { echo "exit code $code for an op that nobody registered"; exit 1; }
code=0
said=$("$1" opt - --library=/no/such.so <<<"$text" 2>&1) || code=$?
has "cannot open" "$said"
[ $code -eq 3 ] || { echo "exit code $code for a library that is not there"; exit 1; }

# What it describes itself is taken with its closure and inputs by every command.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
first=$("$1" run "$2:forward" --json)
has '"type": "f32\[4,16\]"' "$first"
[ "$(grep -o '"digest": .*' <<<"$first")" = "$("$1" run "$2:forward" --json | grep -o '"digest": .*')" ] || { echo "another digest"; exit 1; }
has 'forward: 3 calls, 1 graph' "$("$1" explain "$2:forward")"
has 'aten::linear\|aten::addmm' "$("$1" dump "$2:forward")"
"$1" report "$2:forward" -o "$work/page.html" && grep -q '<title>forward</title>' "$work/page.html"
has '"compiled_share": 1' "$("$1" bench "$2:forward" --json --seconds=0.05)"
has 'k0_' "$("$1" profile "$2:forward")"
has '"verdict": "same"' "$("$1" verify "$2:forward" --json)"
"$1" verify "$2:gradients" >"$work/said" || { cat "$work/said"; exit 1; }
has 'gradient of argument 0' "$(cat "$work/said")"
has '"compiled_share": 1' "$("$1" bench "$2:parameters" --json --seconds=0.05)"
has '"verdict": "same"' "$("$1" verify "$2:train" --json)"
has '"verdict": "same"' "$("$1" verify "$2:graph" --json)"
has 'aten::exp' "$("$1" dump "$2:graph")"
"$1" plan "$2:forward" --save="$work/forward.plan"
has '"type": "f32\[4,16\]"' "$("$1" run "$work/forward.plan" --json --input 'f32[4,8]' --input 0.5)"
printf 'graph two(%%x: f32[4]) {\n  %%0 = aten::exp(%%x)\n  %%1 = aten::sum(%%x)\n  return %%0, %%1\n}\n' >"$work/two.sn"
"$1" plan "$work/two.sn" --save="$work/two.plan"
[ "$("$1" run "$work/two.plan" --json --input 'f32[4]' | grep -o '"type": ' | wc -l)" = 2 ] || { echo "a plan has two results"; exit 1; }
{ echo 'graph many(%x: f32[4]) {' && printf '  %%%d = aten::exp(%%x)\n' $(seq 0 1024) &&
    echo "  return $(seq -s ', ' -f '%%%g' 0 1024)" && echo '}'; } >"$work/many.sn"
"$1" run "$work/many.sn" 2>"$work/said" && { echo "1025 results"; exit 1; }
has 'many.sn. has 1025 results; the tool has room for 1024' "$(cat "$work/said")"
# Other inputs by --input, with the same closure.
has '"type": "f32\[6,16\]"' "$("$1" run "$2:forward" --json --input 'f32[6,8]' --input 0.25)"
refused() { # CODE TEXT ARG...
    local wanted=$1 text=$2 code=0
    shift 2
    said=$("$sinter" "$@" 2>&1) || code=$?
    has "$text" "$said"
    [ $code -eq "$wanted" ] || { echo "exit code $code, not $wanted, for $*: $said"; exit 1; }
}
sinter=$1
refused 2 "has inputs of its own" run "$2:forward" --vary
refused 1 "a target has a body or a graph" run "$2:nothing"
refused 1 "the weights are not there" run "$2:broken"
refused 1 "its body is advance of .*libc.*: make it static" run "$2:taken"
for command in run explain dump verify bench profile; do
    refused 1 "wants its closure, and is called without one: SN_TARGET(wants_closure, target)" $command "$2:wants_closure" --input 'f32[4,8]' --input 0.5
done
