#!/bin/bash
# machine_code.sh SINTER: the stages ptx and sass of `sinter dump`: what the kernels of a GPU are compiled to, where NVRTC
# and nvdisasm are; where they are not, which one is missing, and where it was looked for.
set -uo pipefail
sinter=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SINTER_CUDA_DRIVER=none # no GPU is asked for
failed=0
complain() { echo "$*" && failed=1; }
cat >"$work/f.sn" <<'TEXT'
graph f(%x: f32[64,64], %y: f32[64,64]) {
  %0 = aten::tanh(%x)
  %1 = aten::mul.Tensor(%0, %y)
  return %1
}
TEXT

SINTER_CUDA_NVRTC=/no/nvrtc.so "$sinter" dump "$work/f.sn" --stage=ptx >"$work/said" 2>"$work/err"
[ $? = 3 ] && grep -q 'there is no NVRTC (/no/nvrtc.so: ' "$work/err" || complain "no NVRTC: $(cat "$work/err")"

nvrtc=${SINTER_CUDA_NVRTC:-$(ls /usr/local/cuda*/lib*/libnvrtc.so.1[23] 2>/dev/null | head -1)}
if [ -z "$nvrtc" ]; then
    echo "skipped: there is no NVRTC here"
    [ $failed = 0 ] && exit 77
    exit 1
fi
export SINTER_CUDA_NVRTC=$nvrtc
for target in "$work/f.sn" "$work/f.sn --grad" hello; do
    "$sinter" dump $target --stage=ptx >"$work/said" 2>"$work/err" || complain "$target: $(cat "$work/err")"
    grep -qE '^\.target sm_90' "$work/said" && grep -qE '\.entry k0_' "$work/said" || complain "$target: no PTX: $(head -c 300 "$work/said")"
    grep -q '^# graph 0$' "$work/said" || complain "$target: graphs have no heads"
done
"$sinter" dump "$work/f.sn" --stage=ptx --machine=sm_80 >"$work/said"
grep -qE '^\.target sm_80' "$work/said" || complain "another machine: $(head -c 300 "$work/said")"
"$sinter" dump "$work/f.sn" --stage=ptx --json >"$work/said"
grep -q '"stage": "ptx", "text": "# graph 0' "$work/said" || complain "no JSON: $(head -c 300 "$work/said")"

SINTER_NVDISASM=/no/nvdisasm "$sinter" dump "$work/f.sn" --stage=sass >"$work/said" 2>"$work/err"
[ $? = 3 ] && grep -q "nvdisasm, which cannot be started ('/no/nvdisasm': " "$work/err" || complain "no nvdisasm: $(cat "$work/err")"
printf '#!/bin/sh\necho "no ELF: $(head -c 4 "$2" | tail -c 3)"\nexit 1\n' >"$work/refuses" && chmod +x "$work/refuses"
SINTER_NVDISASM=$work/refuses "$sinter" dump "$work/f.sn" --stage=sass >"$work/said" 2>"$work/err"
[ $? = 3 ] && grep -q "refuses' refuses the code: no ELF: ELF" "$work/err" || complain "it refuses: $(cat "$work/err")"
disassembler=${SINTER_NVDISASM:-$(command -v nvdisasm || ls /usr/local/cuda*/bin/nvdisasm 2>/dev/null | head -1)}
if [ -n "$disassembler" ]; then
    SINTER_NVDISASM=$disassembler "$sinter" dump "$work/f.sn" --stage=sass >"$work/said" 2>"$work/err" || complain "sass: $(cat "$work/err")"
    grep -q '\.text\.k0_tanh_mul' "$work/said" && grep -q 'EXIT' "$work/said" || complain "no SASS: $(head -c 300 "$work/said")"
else
    echo "no nvdisasm is here: SASS itself was not looked at"
fi
exit $failed
