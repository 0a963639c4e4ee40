#!/bin/bash
# diff.sh SINTER: `sinter diff` of folders of the setting trace, and of files, beside `diff -u`.
set -uo pipefail
sinter=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
complain() { echo "$*" && failed=1; }

# compare CODE ARG...: into said
compare() {
    local want=$1
    shift
    "$sinter" diff "$@" >said 2>&1
    local code=$?
    [ $code = "$want" ] || complain "diff $*: exit code $code, not $want: $(cat said)"
}
has() { grep -qE -- "$1" said || complain "no '$1' in: $(cat said)"; }
lacks() { ! grep -qE -- "$1" said || complain "'$1' in: $(cat said)"; }

# Files: what stands behind the first line's place is what diff says, but for the times in its head.
same_as_diff() {
    diff -d -U 3 "$1" "$2" | sed -e 's/^\(---\|+++\) \([^\t]*\)\t.*/\1 \2/' >want
    compare "$([ -s want ] && echo 1 || echo 0)" "$1" "$2"
    sed -n '/^--- /,$p' said >got
    [ "$(grep -c '^[-+]' want)" = "$(grep -c '^[-+]' got)" ] || complain "$1 $2: not the fewest lines: $(cat got)"
    [ "${3:-}" ] || return 0
    cmp -s want got || complain "$1 $2: $(diff want got)"
}
seq 1 60 >a
sed -e '3d' -e '20s/$/ changed/' -e '27i added' -e '58,60d' a >b
printf 'x\n' >one
: >none
same_as_diff a b exactly
same_as_diff b a exactly
same_as_diff one none exactly
same_as_diff none one exactly
same_as_diff none none exactly
same_as_diff a a exactly
same_as_diff a one exactly
RANDOM=7
for _ in $(seq 40); do # few different lines, so that much fits together
    for _ in $(seq $((RANDOM % 40))); do echo $((RANDOM % 5)); done >left
    for _ in $(seq $((RANDOM % 40))); do echo $((RANDOM % 5)); done >right
    same_as_diff left right
    if command -v patch >/dev/null && [ -s got ]; then
        cp left patched && patch -s patched <got && cmp -s patched right || complain "the patch makes something else: $(cat got)"
    fi
done
seq 1 9000 >many
seq 20000 29000 >others
compare 1 many others
has '^@@ -1,9000 \+1,9001 @@$'

# Folders: graphs by name and order, whatever their numbers are.
cat >f.sn <<'TEXT'
graph f(%x: f32[s0,8]) {
  %0 = aten::relu(%x)
  %1 = aten::softmax.int(%0, -1)
  return %1
}
TEXT
sed -e 's/relu/tanh/' f.sn >g.sn
SINTER_TRACE=before "$sinter" run f.sn --vary >/dev/null
mkdir -p again/0007-old
SINTER_TRACE=again "$sinter" run f.sn --vary >/dev/null
rmdir again/0007-old
compare 0 before again
[ ! -s said ] || complain "of the same: $(cat said)"
SINTER_TRACE=after "$sinter" run g.sn --vary >/dev/null
compare 1 before after
has '^f, graph 0: 00-capture.sn: line 2$'
has '^  < +%0 = aten::relu\(%x0\)$'
has '^  > +%0 = aten::tanh\(%x0\)$'
has '^--- before/0001-f/00-capture.sn$'
has '^\+  %0 = aten::tanh\(%x0\)$'
lacks 'about.txt'
compare 1 before after --brief --stage=fused
has '^f, graph 0: 04-fused.sn: line 2$'
lacks '^(---|f, graph 0: 0[0-35-9])'
compare 1 before/0001-f after/0001-f --brief
has '^00-capture.sn: line 2$'
SINTER_TRACE=after "$sinter" run g.sn >/dev/null
rm after/0001-f/09-shapes.txt
compare 1 before after
has '^only in after: 0002-f$'
has '^only in before/0001-f: 09-shapes.txt$'

# Five digits come after four.
mkdir -p long/{9999,10000}-g short/{0001,0002}-g
for at in long/9999-g short/0001-g; do echo first >$at/00-capture.sn; done
for at in long/10000-g short/0002-g; do echo second >$at/00-capture.sn; done
compare 0 long short
compare 0 short long

compare 3 before a
has "'before' is a folder, and 'a' is not"
compare 3 before nowhere
has "cannot open 'nowhere': No such file"
compare 3 nowhere before
has "cannot open 'nowhere': No such file"
compare 3 a nowhere
has "cannot open 'nowhere': No such file"
compare 2 a
compare 2 a b c
compare 2 before after --stage=fusd
has "did you mean 'fused'"
exit $failed
