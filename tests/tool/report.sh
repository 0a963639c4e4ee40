#!/bin/bash
# report.sh SINTER CHECK-PAGE: `sinter report` of graphs, of a training function and of samples, read by a strict reader
# of pages; where a browser is installed it reads one, too.
set -uo pipefail
sinter=$1 check=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() { echo "$*" && failed=1; }

cat >"$work/f.sn" <<'TEXT'
graph f(%x: f32[64,128], %w: f32[128,128]) {
  %0 = aten::mm(%x, %w)
  %1 = aten::relu(%0)
  %2 = aten::mm(%1, %w)
  %3 = aten::softmax.int(%2, -1)
  %4 = aten::mm(%3, %w)
  return %4
}
TEXT

# page WANTED ARG...: what the reader says of the page
page() {
    local wanted=$1 said
    shift
    "$sinter" report "$@" -o "$work/page.html" || complain "report $* failed"
    said=$("$check" <"$work/page.html") || complain "report $*: $said"
    grep -qxE -- "$wanted" <<<"$said" || complain "report $*: $said, not $wanted"
}
more=', [1-9][0-9]* times, [1-9][0-9]* costs, [0-9]+ blocks'
has() { grep -qF -- "$1" "$work/page.html" || complain "the page does not have: $1"; }

page "4 kernels, 9 linked ops, 3 boxes, 2 pictures, 4 times, 33 costs, [1-9][0-9]* blocks" "$work/f.sn"
has '<h4>k0_mm_relu</h4><pre>kernel k0_mm_relu('
has 'define void @k2_amax_sub_exp_sum_div('
has '# f32[64,1]; of aten::_softmax; f:5</a><span class="cost">  256 bytes  '
has ' us in k2_amax_sub_exp_sum_div</span>'
has '<td>65536</td><td class="time">'
has '<td class="time">'
has '<text x="4" y="14">Memory of cpu</text>'
has '<title>98304 bytes in 2 blocks: inputs.c:'
has 'mm (%0) with relu (%1): 65536 bytes saved'
has 'operand must be in memory; 65536 bytes would be saved'
has '<title>arena1: f32[64,128], 32768 bytes at 32768, steps 1 to 2</title>'
cat >"$work/strided.sn" <<'TEXT'
graph f(%x: f32[4,6]) {
  %0 = aten::t(%x)
  %1, %2 = aten::sort(%0, 0)
  return %1, %2
}
TEXT
page "[0-9]+ kernels, [0-9]+ linked ops, [0-9]+ boxes, [0-9]+ pictures$more" "$work/strided.sn"
has '# f32[6,4]{1,6}, i64[6,4]{1,6}; f:3<span class="cost">  288 bytes</span>'
has '<summary>0 breaks</summary>'
page "[0-9]+ kernels, [0-9]+ linked ops, [0-9]+ boxes, 3 pictures$more" "$work/f.sn" --grad
has 'id="g0-backward-k1"'
page "[0-9]+ kernels, [0-9]+ linked ops, [0-9]+ boxes, [0-9]+ pictures$more" "$work/f.sn" --vary
page "[0-9]+ kernels, [0-9]+ linked ops, [0-9]+ boxes, [0-9]+ pictures$more" hello
has 'hello.c:'
page "[0-9]+ kernels, [0-9]+ linked ops, [0-9]+ boxes, [0-9]+ pictures$more" newton
has '<summary>1 break</summary>'
page "[0-9]+ kernels, [0-9]+ linked ops, [0-9]+ boxes, [0-9]+ pictures$more" digits

# A program's own pages, by the environment; `sinter run` is one.
SINTER_REPORT=html:$work/own.html "$sinter" run "$work/f.sn" >/dev/null || complain "the run with a page failed"
"$check" <"$work/own.html" | grep -qE '^4 kernels, 9 linked ops, 3 boxes, 2 pictures, ' || complain "the page is not read: $("$check" <"$work/own.html")"
SINTER_REPORT=html:$work/hello.html "$sinter" run hello >/dev/null || complain "hello with a page failed"
"$check" <"$work/hello.html" >/dev/null || complain "hello's page is not read"

# A saved plan has kernels and no graphs.
"$sinter" plan "$work/f.sn" --no-grad --save="$work/f.plan" || complain "no plan"
plan=("$work/f.plan" --no-grad --input 'f32[64,128]' --input 'f32[128,128]')
"$sinter" report "${plan[@]}" -o "$work/plan.html" || complain "no page of a plan"
"$check" <"$work/plan.html" | grep -qE '^4 kernels, 0 linked ops, 3 boxes, 2 pictures, ' || complain "the plan's page: $("$check" <"$work/plan.html")"
"$sinter" bench "${plan[@]}" --repeats=6 --json | grep '"compiled_ms": .*"kernels": 4' >/dev/null || complain "a plan is not timed"

"$sinter" report "$work/f.sn" -o "$work/none/page.html" 2>"$work/err"
[ $? = 3 ] && grep -q "cannot write '$work/none/page.html'" "$work/err" || complain "no folder: $(cat "$work/err")"
"$sinter" report "$work/f.sn" 2>"$work/err"
[ $? = 2 ] && grep -q -- '-o FILE is missing' "$work/err" || complain "no file: $(cat "$work/err")"

# The memory of a profile's calls, in a file and as a picture.
"$sinter" profile "$work/f.sn" --snapshot="$work/memory.json" >/dev/null || complain "no snapshot was written"
"$sinter" memory "$work/memory.json" --svg="$work/memory.svg" >"$work/said" || complain "the snapshot is not read"
grep -q 'in use, by who asked for it' "$work/said" || complain "who holds memory is not said: $(cat "$work/said")"
"$check" <"$work/memory.svg" | grep -qE '^[1-9][0-9]* blocks$' || complain "the picture is not read: $("$check" <"$work/memory.svg")"
grep -q '98304 bytes in 2 blocks: inputs.c:' "$work/memory.svg" || complain "the picture does not say who holds the inputs"
sed 's/64,128/1024,1024/; s/128,128/1024,1024/' "$work/f.sn" >"$work/large.sn"
"$sinter" profile "$work/large.sn" --calls=1 --snapshot="$work/large.json" >/dev/null || complain "no large snapshot"
"$sinter" memory "$work/large.json" --svg="$work/large.svg" >/dev/null
used=$(grep -c 'fill="#0969da".*<title>4194304 bytes, used, inputs.c:' "$work/large.svg")
# Where a sanitizer watches blocks, the allocator keeps none of its own.
[ -n "${ASAN_OPTIONS:-}" ] || [ "$used" = 2 ] || complain "$used blocks of the inputs are drawn as used, not 2"
"$sinter" memory "$work/memory.json" --svg="$work/none/memory.svg" >/dev/null 2>"$work/err"
[ $? = 3 ] && grep -q "cannot write '$work/none/memory.svg'" "$work/err" || complain "no folder: $(cat "$work/err")"
echo '{"version": 1}' | "$sinter" memory - --svg="$work/bad.svg" >/dev/null 2>&1
[ $? = 1 ] && [ ! -e "$work/bad.svg" ] || complain "something that is no snapshot was drawn"

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -n "$browser" ]; then
    "$sinter" report "$work/f.sn" -o "$work/page.html"
    "$browser" --headless --no-sandbox --disable-gpu --dump-dom "file://$work/page.html" >"$work/dom" 2>/dev/null
    grep -qF 'id="g0-graph-k2"' "$work/dom" || complain "the browser's page has no kernel 2"
    grep -qF '<td class="time">' "$work/dom" || complain "the browser's page has no times"
    grep -qF 'class="block"' "$work/dom" || complain "the browser's page has no picture of memory"
    "$browser" --headless --no-sandbox --disable-gpu --screenshot="$work/page.png" "file://$work/page.html" 2>/dev/null
    [ -s "$work/page.png" ] || complain "the browser made no picture"
else
    echo "skipped: no Chromium reads the page here"
fi
exit $failed
