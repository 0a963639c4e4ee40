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
