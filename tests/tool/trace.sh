#!/bin/bash
# trace.sh SINTER: SINTER_TRACE of samples and graphs: every text of a stage that has a parser parses back to the same
# bytes; processes that share a folder each have their own in it; a full disk says which file, and changes no result.
set -uo pipefail
sinter=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() { echo "$*" && failed=1; }

cat >"$work/f.sn" <<'TEXT'
graph f(%x: f32[s0,128], %w: f32[128,128]) {
  %0 = aten::mm(%x, %w)
  %1 = aten::relu(%0)
  %2 = aten::softmax.int(%1, -1)
  return %2
}
TEXT

# back FOLDER LIBRARY: its texts, but code, through `sinter opt`
back() {
    local file name stage n=0
    for file in "$1"/*/*; do
        name=${file##*/} stage=${name#*-} stage=${stage%%[-.]*}
        case $stage in llvm | asm | cuda | about) continue ;; esac
        "$sinter" opt "$file" --stage="$stage" ${2:+--library=$2} >"$work/back" 2>"$work/err" ||
            complain "$file: $(cat "$work/err")"
        cmp -s "$file" "$work/back" || complain "$file is printed otherwise: $(diff "$file" "$work/back" | head -5)"
        n=$((n + 1))
    done
    [ "$n" -gt 7 ] || complain "$1 has $n texts"
}

for sample in custom kernel hello tour newton inspect loader per_sample "digits --steps 1"; do
    name=${sample%% *}
    # shellcheck disable=SC2086 # with its arguments
    SINTER_TRACE=$work/$name "$sinter" run $sample >/dev/null 2>"$work/err" || complain "$sample: $(cat "$work/err")"
    back "$work/$name" "$name"
done
SINTER_TRACE=$work/deep/er "$sinter" run "$work/f.sn" --vary --grad >/dev/null
back "$work/deep/er" ''
[ "$(ls "$work/deep/er")" = 0001-f ] || complain "folders: $(ls "$work/deep/er")"
for file in 00-capture 05-forward 06-backward; do
    [ -f "$work/deep/er/0001-f/$file.sn" ] || complain "there is no $file"
done
grep -q '%x0: f32\[s0,128\]' "$work/deep/er/0001-f/00-capture.sn" || complain "the size is no symbol"
SINTER_TRACE=$work/sizes "$sinter" run "$work/f.sn" --vary --dynamic=never >/dev/null
back "$work/sizes" ''
[ "$(ls "$work/sizes")" = $'0001-f\n0002-f\n0003-f' ] || complain "of three sizes: $(ls "$work/sizes")"

# Four processes at once.
for _ in 1 2 3 4; do SINTER_TRACE=$work/all "$sinter" run "$work/f.sn" >/dev/null & done
wait
[ "$(ls "$work/all")" = $'0001-f\n0002-f\n0003-f\n0004-f' ] || complain "of four processes: $(ls "$work/all")"
for folder in 2 3 4; do
    diff -r "$work/all/0001-f" "$work/all/000$folder-f" >"$work/diff" || complain "$(head -5 "$work/diff")"
done

# Same results, one warning. The limit is in units of 1,024 bytes.
"$sinter" run "$work/f.sn" --vary >"$work/want"
(ulimit -f 1 && SINTER_TRACE=$work/full "$sinter" run "$work/f.sn" --vary 2>"$work/err" | cat >"$work/got")
cmp -s "$work/want" "$work/got" || complain "a full disk changes results"
[ "$(grep -c 'setting trace: cannot write .*: File too large' "$work/err")" = 1 ] || complain "full: $(cat "$work/err")"
exit $failed
