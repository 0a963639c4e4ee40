#!/bin/bash
# reduce.sh SINTER LIBRARY: `sinter reduce` of graphs that mistakes made on purpose (wrong.c) make fail: what is left must
# still fail, be as small as it can be, and run.
set -uo pipefail
sinter=$1 library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
complain() { echo "$*" && failed=1; }

# reduce CODE ARG...: into said
reduce() {
    local want=$1
    shift
    rm -f small.sn
    "$sinter" reduce "$@" >said 2>&1
    local code=$?
    [ $code = "$want" ] || complain "reduce $*: exit code $code, not $want: $(cat said)"
}
has() { grep -qE -- "$1" said || complain "no '$1' in: $(cat said)"; }
# the small graph with its input called x
small() { [ "$(sed 's/%v[0-9]*/%x/' small.sn)" = "$1" ] || complain "left: $(cat small.sn)"; }

cat >f.sn <<'TEXT'
graph f(%x: f32[s0,8], %w: f32[8,16], %v: f32[16,8], %unused: f32[3]) {
  %0 = aten::mm(%x, %w)
  %1 = aten::sigmoid(%0)
  %2 = aten::mm(%1, %v)
  %3 = aten::relu(%2)
  %4 = aten::softmax.int(%3, -1)
  %5 = aten::neg(%4)
  %6 = aten::tanh(%x)
  return %5, %6, %1
}
TEXT

WRONG_PASS=relu reduce 0 f.sn -o small.sn "--library=$library"
small 'graph f(%x: f32[1,1]) {
  %0 = aten::relu(%x)
  return %0
}'
has '^small.sn: 7 ops to 1, 4 inputs to 1, 3 outputs to 1; [0-9]+ runs; fails as before: differ$'
"$sinter" run small.sn >/dev/null || complain "the small graph does not run"
WRONG_PASS=relu "$sinter" verify small.sn "--library=$library" >said && complain "the small graph does not fail"

# Two ops belong to it.
WRONG_PASS=pair reduce 0 f.sn -o small.sn "--library=$library"
[ "$(grep -c '= aten::' small.sn)" = 2 ] && grep -q 'aten::mm' small.sn && grep -q 'aten::relu' small.sn ||
    complain "of a pair: $(cat small.sn)"

# A process that dies, a function of a library, a backend.
WRONG_PASS=crash reduce 0 f.sn -o small.sn "--library=$library"
has 'fails as before: signal 6$'
[ "$(grep -c '= aten::' small.sn)" = 1 ] && grep -q 'aten::relu' small.sn || complain "of a crash: $(cat small.sn)"
WRONG_PASS=relu reduce 0 "$library:layers" --input 'f32[40,8]' --input 'f32[8,8]' -o small.sn
[ "$(grep -c '= aten::' small.sn)" = 1 ] || complain "of a function: $(cat small.sn)"
reduce 0 f.sn -o small.sn "--library=$library" '--backend=one off'
[ "$(grep -c '= aten::' small.sn)" = 1 ] || complain "of a backend: $(cat small.sn)"

# By a command, which gets the file's name.
cat >has_tanh.sh <<'TEXT'
#!/bin/sh
[ "$1" = --word ] && grep -q 'aten::tanh' "$2"
TEXT
chmod +x has_tanh.sh
reduce 0 f.sn -o small.sn --by './has_tanh.sh --word'
[ "$(grep -c '= aten::' small.sn)" = 1 ] && grep -q '= aten::tanh' small.sn || complain "by a command: $(cat small.sn)"
has 'fails as before: exit code 0$'

# What never ends is stopped, and so is its search.
reduce 1 f.sn -o small.sn --by 'sleep 31.4159; true' --seconds=1
has 'more than 1 s'
pgrep -f '^sleep 31.4159$' && complain "it still runs"

# What does not fail.
reduce 1 f.sn -o small.sn
has "^sinter: 'f.sn' does not fail: compiled, it has eager's bits; nothing to reduce$"
[ ! -e small.sn ] || complain "it wrote a graph that does not fail"
reduce 1 f.sn -o small.sn --by false
has "does not fail: 'false' ends with exit code 1"
printf 'graph f(%%x: f32[2], %%y: f32[3]) {\n  %%0 = aten::rellu(%%x)\n  return %%0\n}\n' >bad.sn
reduce 1 bad.sn -o small.sn
has "^bad.sn:2:8: error: no op is called 'aten::rellu'"
WRONG_PASS=relu reduce 3 f.sn -o none/small.sn "--library=$library"
has "cannot write 'none/small.sn': No such file or directory"
reduce 3 nothing.sn -o small.sn
reduce 2 f.sn
has '-o FILE is missing'

# A sample, whose set-up draws what it wants, and whose graph is right.
reduce 1 hello -o small.sn
has "^sinter: 'hello' does not fail: compiled, it has eager's bits"

# Sizes that are given are those of the graph; a command may be long; the result is written where the name leads.
printf '#!/bin/sh\ngrep -q "aten::relu" "$1" && grep -q "f32\\[5,8\\]" "$1"\n' >sized.sh
chmod +x sized.sh
reduce 0 f.sn -o small.sn --by ./sized.sh --input 'f32[5,8]' --input 'f32[8,16]' --input 'f32[16,8]' --input 'f32[3]'
grep -q 'f32\[5,8\]' small.sn || complain "of given sizes: $(cat small.sn)"
reduce 1 f.sn -o small.sn --by "true $(printf 'a%.0s' $(seq 4200)); false"
echo old >real.sn && ln -s real.sn link.sn
reduce 0 f.sn -o link.sn --by './has_tanh.sh --word'
[ -L link.sn ] && grep -q 'aten::tanh' real.sn || complain "the link was replaced"

# Stopped, it gives what it has, and leaves nothing behind.
mkdir scratch
TMPDIR=$work/scratch timeout -s INT 2.5 "$sinter" reduce f.sn -o small.sn --by 'sleep 0.61803; true' >said 2>&1
has 'stopped by signal 2: the smallest graph so far'
[ -s small.sn ] || complain "nothing was written"
[ -z "$(ls scratch)" ] || complain "left: $(ls scratch)"
sleep 0.3
pgrep -f '^sleep 0.61803$' && complain "it still runs when stopped"
exit $failed
