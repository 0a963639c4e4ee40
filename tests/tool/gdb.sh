#!/bin/bash
# gdb.sh SINTER: a debugger stops in a kernel by its name, and its stack goes from there to main.
set -uo pipefail
sinter=$1
command -v gdb >/dev/null || { echo "skipped: gdb is not installed" && exit 77; }
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" # which wants to be the debugger itself
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/f.sn" <<'TEXT'
graph f(%x: f32[64,64], %y: f32[64,64]) {
  %0 = aten::tanh(%x)
  %1 = aten::mul.Tensor(%0, %y)
  return %1
}
TEXT
gdb -q -nx -batch -ex 'echo it begins\n' -ex 'break main' -ex run --args "$sinter" help >"$work/begins" 2>&1
grep -q '^Breakpoint 1, ' "$work/begins" || grep -q 'hit Breakpoint 1, ' "$work/begins" ||
    { echo "skipped: gdb cannot start a program here: $(tail -1 "$work/begins")" && exit 77; }

SINTER_JIT_SYMBOLS=gdb SINTER_THREADS=1 gdb -q -nx -batch -ex 'set breakpoint pending on' -ex 'break k0_tanh_mul.f.graph0' -ex run \
    -ex 'info symbol $pc' -ex 'x/2i $pc' -ex bt -ex delete -ex continue --args "$sinter" run "$work/f.sn" >"$work/said" 2>&1
failed=0
has() { grep -qE -- "$1" "$work/said" || { echo "gdb does not say: $1" && failed=1; }; }
has 'Breakpoint 1, .*in k0_tanh_mul\.f\.graph0 \(\)'
has '^k0_tanh_mul\.f\.graph0(\+[0-9]+)? in section \.text of <in-memory@0x[0-9a-f]+>$'
has '^=> 0x[0-9a-f]+ <k0_tanh_mul\.f\.graph0(\+[0-9]+)?>:'
has '^#0 .* in k0_tanh_mul\.f\.graph0 \(\)$'
has '^#[0-9]+ .*\bmain \('
has 'exited normally'
[ $failed = 0 ] || cat "$work/said"
exit $failed
