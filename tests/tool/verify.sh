#!/bin/bash
# verify.sh SINTER LIBRARY: `sinter verify` of what is right, and of mistakes made on purpose (wrong.c), whose op and line
# it must name.
set -uo pipefail
sinter=$1 library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
complain() { echo "$*" && failed=1; }

# verify CODE ARG...: into said
verify() {
    local want=$1
    shift
    "$sinter" verify "$@" >said 2>&1
    local code=$?
    [ $code = "$want" ] || complain "verify $*: exit code $code, not $want: $(cat said)"
}
has() { grep -qE -- "$1" said || complain "no '$1' in: $(cat said)"; }
lacks() { ! grep -qE -- "$1" said || complain "'$1' in: $(cat said)"; }

cat >f.sn <<'TEXT'
# a comment
graph f(%x: f32[s0,8], %w: f32[8,8]) {
  %0 = aten::mm(%x, %w)
  %1 = aten::relu(%0)
  %2 = aten::tanh(%1)
  return %2, %1
}
TEXT
cat >written.sn <<'TEXT'
graph f(%x: f32[4,8]) {
  %0 = aten::neg(%x)
  %1 = aten::add_.Tensor(%x, %x)
  %2 = aten::relu(%0)
  %3 = aten::add_.Tensor(%0, %2)
  return %0
}
TEXT
cat >mine.sn <<'TEXT'
graph f(%x: f32[4,8]) {
  %0 = aten::neg(%x)
  %1 = my::doubled(%0)
  %2 = aten::exp(%1)
  return %2
}
TEXT
cat >halves.sn <<'TEXT'
graph f(%x: f16[300], %i: i64[4]) {
  %0 = aten::mul.Scalar(%x, 3.0)
  %1 = aten::sum(%0, dtype=f32)
  %2 = aten::add.Scalar(%i, 2)
  return %0, %1, %2
}
TEXT
cat >random.sn <<'TEXT'
graph f(%x: f32[4]) {
  %0 = aten::rand_like(%x)
  %1 = aten::add.Tensor(%0, %x)
  return %1
}
TEXT
cat >empty.sn <<'TEXT'
graph f(%x: f32[0,8]) {
  return %x
}
TEXT

cat >tanh.sn <<'TEXT'
graph f(%x: f32[2000]) {
  %0 = aten::gelu(%x, approximate='tanh')
  return %0
}
TEXT
cat >std.sn <<'TEXT'
graph f(%m: f32[50], %s: f32[50]) {
  %0 = aten::normal.Tensor_Tensor(%m, %s)
  return %0
}
TEXT

# What is right.
verify 0 f.sn --vary --grad
has '^result 0 +f32\[8,8\] +eager +- +[0-9.e-]+ +[0-9.]+$'
has '^ +unfused +same +[0-9.e-]+ +[0-9.]+$'
has '^ +fused +same +[0-9.e-]+ +[0-9.]+$'
has '^gradient of argument 1 +f32\[8,8\]'
lacks 'not compiled|ran eagerly'
verify 0 written.sn
has '^argument 0 afterwards +f32\[4,8\]'
verify 0 halves.sn
has '^result 2 +i64\[4\] +eager +- +- +-$'
verify 0 random.sn
has '^f64: none: aten::rand_like draws other numbers in f64$'
verify 0 empty.sn
verify 0 tanh.sn
verify 0 std.sn
verify 0 - --json <f.sn
has '"verdict": "same"'
for target in hello custom newton; do verify 0 $target; done
verify 0 "$library:layers" --input 'f32[4,8]' --input 'f32[8,8]'

# What no op has set is equal to anything, also in what is computed of it; what is set later is compared.
cat >unset.sn <<'TEXT'
graph f(%x: f32[2,3], %y: f64[2,3], %i: i64[2]) {
  %0 = aten::empty_like(%x)
  %1 = aten::relu(%0)
  %2 = aten::mul.Tensor(%x, %1)
  %3 = aten::new_empty_strided(%x, [2,2], [1,2])
  %4 = aten::select.int(%3, 0, 1)
  %5 = aten::fill_.Scalar(%4, 3.0)
  %6 = aten::new_empty(%x, [2,3], dtype=bool)
  %7 = aten::where.self(%6, %x, %y)
  %8 = aten::empty_like.out(%x, out=%y)
  %9 = aten::isnan(%0)
  %10 = aten::new_empty(%i, [4])
  %11 = aten::index_fill_.int_Scalar(%10, 0, %i, 7)
  return %0, %1, %2, %3, %7, %9, %10
}
TEXT
verify 0 unset.sn --grad
lacks 'differ|runs eagerly'
cat >set.sn <<'TEXT'
graph f(%x: f32[2,3]) {
  %0 = aten::empty_like(%x)
  %1 = aten::relu(%x)
  %2 = aten::copy_(%0, %1)
  %3 = aten::empty_like(%x)
  return %0, %3
}
TEXT

# alpha times the other addend is rounded first, to the result's dtype: what cancels shows that.
cat >alpha.sn <<'TEXT'
graph f(%x: f32[2000], %h: f16[2000], %b: bf16[2000]) {
  %0 = aten::mul.Tensor(%x, 3.1)
  %1 = aten::sub.Tensor(%0, %x, alpha=3.1)
  %2 = aten::add.Tensor(%0, %x, alpha=-3.09)
  %3 = aten::rsub.Tensor(%x, %0, alpha=3.1)
  %4 = aten::mul.Tensor(%h, 1.3)
  %5 = aten::sub.Tensor(%4, %h, alpha=1.3)
  %6 = aten::rsub.Tensor(%b, %h, alpha=-1.7)
  %7 = aten::add.Tensor(%b, 1.1, alpha=-1.3)
  %8 = aten::add_.Tensor(%h, %x, alpha=-1.3)
  return %1, %2, %3, %5, %6, %7
}
TEXT
verify 0 alpha.sn

# A pass that changes a value: everywhere, only of a pair, of the gradients, in the graph's text and in a program.
export WRONG_PASS=relu
verify 1 f.sn "--library=$library" --vary
has '^ +fused +differ '
has '^ +call 1: element [0-9]+ \[[0-9], [0-9]\]: [0-9.]+, eager 0; [0-9]+ of 64 differ$'
has '^first op that differs, unfused: aten::relu at f.sn:4$'
has '^    %1 = aten::relu\(%0\)  # f32\[s0,8\]$'
verify 1 "$library:layers" --input 'f32[4,8]' --input 'f32[8,8]'
has '^first op that differs, unfused: aten::relu at .*wrong.c:14$'
verify 1 written.sn "--library=$library"
has '^first op that differs, unfused: aten::relu at written.sn:4$'
verify 1 f.sn "--library=$library" --json
has '"verdict": "differ".*"first": \{"op": "aten::relu", "place": "f.sn:4", "text": "%1 = aten::relu'
verify 1 set.sn "--library=$library"
has '^first op that differs, unfused: aten::relu at set.sn:3$'
WRONG_PASS=pair verify 1 "$library:layers" --input 'f32[4,8]' --input 'f32[8,8]'
has '^first op that differs, unfused: aten::relu at .*wrong.c:14$'
WRONG_PASS=whole verify 1 f.sn "--library=$library"
has '^unfused: no first op: by itself each op has eager.s bits$'
WRONG_PASS=whole verify 1 f.sn "--library=$library" --json
has '"notes": \["unfused: no first op: by itself'
WRONG_PASS=gradient verify 1 f.sn "--library=$library" --grad
has '^first op that differs, unfused, among those of the gradients: aten::threshold_backward at f.sn:4$'
lacks '^result.*differ'
unset WRONG_PASS

# What a sample draws when it is opened changes no input.
verify 0 f.sn --library=hello

# A backend; an op of the library's.
verify 0 mine.sn "--library=$library"
verify 1 f.sn "--library=$library" '--backend=one off'
has '^ +unfused +same '
has '^ +one off +differ '
has '^first op that differs, one off: aten::relu at f.sn:4$'
verify 0 f.sn "--library=$library" '--backend=no code'
has "^no code: backend 'no code' made no code"
verify 0 f.sn "--library=$library" '--backend=no code' --json
has "\"notes\": \[\"no code: backend 'no code' made no code"
verify 0 random.sn --json
has '"notes": \["f64: none: aten::rand_like draws other numbers in f64"\]'
verify 0 f.sn --json
has '"type": "f32\[8,8\]", "off_f64": [0-9.e-]+, "ulps": [0-9.e-]+, "unfused": \{"same": true, .*"off_f64": '
has '"notes": \[\]'

# Each argument is of its own rank: a predicate too.
cat >branch.sn <<'TEXT'
graph f(%p: bool[], %x: f32[4]) {
  %0 = aten::where.self(%p, %x, %x)
  return %0
}
TEXT
verify 0 branch.sn
has '^result 0 +f32\[4\] '

# Inputs are as the text says: strides with gaps, shared places, memory around a view by numbers; positions that there
# are, where they are moved and computed; where bags begin; leaves that gradients are asked for.
cat >inputs.sn <<'TEXT'
graph f(%x: f32[4,3]{1,4}, %y: f32[2,3]{9,3}, %z: f16[3,2]{0,1}, %w: f32[3,2], %i: i64[2,2], %j: i32[4], %k: i64[2], %b: i64[3], %v: f32[4]) {
  %0 = aten::relu(%x)
  %1 = aten::add.Tensor(%y, 1)
  %2 = aten::exp(%z)
  %3 = aten::t(%i)
  %4 = aten::embedding(%w, %3)
  %5 = aten::index_select(%w, 1, %j)
  %6 = aten::mul.Tensor(%k, 2)
  %7 = aten::index.Tensor(%w, [%6, %k])
  %8, %9, %10, %11 = aten::_embedding_bag(%w, %j, %b)
  %12 = sn::view_of(%v, [3], [2], 6)
  %13 = aten::neg(%12)
  return %0, %1, %2, %4, %5, %7, %8, %13
}
TEXT
cat >losses.sn <<'TEXT'
graph f(%x: f32[s0,3], %t: i64[s0], %p: f32[5], %d: i64[4]) {
  %0 = aten::cross_entropy_loss(%x, %t)
  %1 = aten::binary_cross_entropy(%p, %p)
  %2 = aten::floor_divide(%d, %d)
  return %0, %1, %2
}
TEXT
cat >asks.sn <<'TEXT'
graph f(%x: f32[4]) {
  %0 = aten::tanh(%x)
  %1 = aten::ones_like(%0)
  %2 = sn::gradients([%0], [%1], [%x], [], [], False)
  return %2
}
TEXT
cat >sizes.sn <<'TEXT'
graph f(%x: f32[s0,8], s1: int) {
  %0 = aten::narrow(%x, 0, 0, s1)
  %1 = aten::slice.Tensor(%0, 0, s2)
  return %1
}
TEXT
for target in inputs losses asks; do verify 0 $target.sn --grad; done
verify 0 sizes.sn
has '^result 0 +f32\[0,8\]'
verify 0 sizes.sn --number s0=40 --number=s1=30 --number s2=5
has '^result 0 +f32\[25,8\]'
verify 1 sizes.sn --number s1=9
has 'narrow.*9'
verify 2 sizes.sn --number s7=9
has "the inputs have no s7"
verify 2 sizes.sn --number s1=x
has "a symbol's number is written as s0=16, not 's1=x'"
verify 0 "$library:layers" --input 'f32[s0,8]' --input 'f32[8,8]{1,8}' --number s0=3
has '^result 0 +f32\[3,8\]'

# An op that loses digits: the same bits in all ways, and none of them right.
cat >lossy.sn <<'TEXT'
graph f(%x: f32[64]) {
  %0 = aten::exp(%x)
  %1 = my::lossy(%0)
  %2 = aten::neg(%1)
  return %2
}
TEXT
verify 1 lossy.sn "--library=$library"
has '^first op beyond its bound: my::lossy at lossy.sn:3$'
has '^    element [0-9]+: .*: off by .* ulps, of .* allowed$'
lacks 'differ'
verify 1 lossy.sn "--library=$library" --json
has '"verdict": "inexact".*"beyond_bound": \{"op": "my::lossy", "place": "lossy.sn:3"'
verify 0 lossy.sn "--library=$library" --no-bounds

# An error of a later call; calls that no way made; a process that ends.
verify 1 "$library:at_most_8" --input 'f32[s0]' --vary
has "^eager: error in call 2: .*narrow.*16"
verify 1 "$library:at_most_8" --input 'f32[s0]' --vary --json
has '"verdict": "invalid".*"notes": \["eager: error in call 2: '
verify 1 f.sn --json --backend=nobody
has '"unfused": \{"same": true, .*"fused": \{"same": null, "call": 0, '
verify 134 "$library:ends_process" --input 'f32[4]'
has "^sinter verify: ended by a signal in call 1 of the way 'eager'$"
WRONG_PASS=crash verify 134 f.sn "--library=$library"
has "^sinter verify: ended by a signal in call 1 of the way 'unfused'$"

# What cannot be verified.
printf 'graph f(%%x: f32[2]) {\n  %%0 = aten::rellu(%%x)\n  return %%0\n}\n' >bad.sn
verify 1 bad.sn
has "^bad.sn:2:8: error: no op is called 'aten::rellu'"
verify 3 none.sn
verify 3 no_such_sample
verify 2
verify 2 hello --grad
verify 3 no_such.plan
has "cannot open 'no_such.plan'"
verify 1 f.sn --backend=nobody
has "no backend 'nobody'"
exit $failed
