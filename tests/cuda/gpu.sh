#!/bin/sh
# gpu.sh: what `./dev gpu` packs as `run`: the tests and the benchmark that it lies beside, on this machine's GPU. Parts in
# order of worth, each with a limit of seconds, all of them within GPU_SECONDS (540); each says how it ended, and a table at
# the end all of them. What needs the emulated driver says that it is left out. Exits 1 where a part failed, 77 without a GPU.
#
#   ./run                    all parts
#   ./run PART...            these
#   ./run --emulated PART... with the libraries that SINTER_CUDA_DRIVER and SINTER_CUDA_NVRTC name: how this is tested
here=${GPU_PROGRAMS:-$(cd "$(dirname "$0")" && pwd)} log=${GPU_LOG:-$PWD/log}
export GPU_PROGRAMS="$here" GPU_LOG="$log" GPU_BYTES="${GPU_BYTES:-1e9}" CUDA_CACHE_DISABLE=1
export SINTER_SAMPLE_DATA="${SINTER_SAMPLE_DATA:-$here/data}" LD_LIBRARY_PATH="$here${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# Parts of several commands: `run --part NAME` runs one ----------------------------------------------------------------

# One digest of what was learnt, there and on the CPU.
digits() {
    "$here/digits" --steps 20 --json >"$log/digits.cpu" && "$here/digits" --device=cuda --steps 20 --json >"$log/digits.gpu" || return 1
    grep -ho '"digest": "[0-9a-f]*"' "$log/digits.cpu" "$log/digits.gpu" | sort | uniq -c
    [ "$(grep -ho '"digest": "[0-9a-f]*"' "$log/digits.cpu" "$log/digits.gpu" | sort -u | wc -l)" = 1 ]
}

# PyTorch's times of the same rows, where it is installed.
torch() {
    python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null || { echo 'no PyTorch with CUDA here' && return 77; }
    python3 "$here/torch_cuda_rows.py" --bytes "$GPU_BYTES"
}

# Accesses outside of memory, and races in shared memory, if the tool can work here at all.
memcheck() {
    checker=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
    "$checker" --error-exitcode 9 "$here/sinter" doctor >/dev/null 2>&1 || { echo 'compute-sanitizer does not run here' && return 77; }
    export CK_FORK=no
    "$checker" --error-exitcode 9 "$here/test_cuda_ops" && "$checker" --tool racecheck --error-exitcode 9 "$here/test_cuda_ops"
}

case ${1:-} in
    --part) "$2" && exit 0 || exit $? ;;
    --emulated) shift ;;
    *) unset SINTER_CUDA_DRIVER SINTER_CUDA_NVRTC EMULATED_CUDA ;;
esac
# Products of f16 and bf16 that are compared with the CPU's bits are those of Sinter's own kernels.
export SINTER_CUDA_BLASLT=none

# All parts ------------------------------------------------------------------------------------------------------------

parts=$* end=$(($(date +%s) + ${GPU_SECONDS:-540})) table='' failed=0 self=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
mkdir -p "$log" || exit 2

# What a part's exit code means.
outcome() {
    case $1 in
        0) echo passed ;;
        77) echo "left out: $(tail -n 1 "$log/$name")" ;;
        124) echo "FAILED: not done in $limit s" ;;
        *) echo "FAILED ($1)" ;;
    esac
}

# part NAME SECONDS COMMAND...: its output goes to the log's folder; `bench` and `torch` are shown, and the end of what failed.
part() {
    name=$1 limit=$2
    shift 2
    case " ${parts:-$name} " in *" $name "*) ;; *) return 0 ;; esac
    start=$(date +%s)
    [ "$limit" -lt $((end - start)) ] || limit=$((end - start))
    result='not run: no time is left'
    if [ "$limit" -gt 0 ]; then
        timeout "$limit" "$@" >"$log/$name" 2>&1
        result=$(outcome $?)
    fi
    case $name:$result in bench:* | torch:passed | digits:*) cat "$log/$name" ;; *FAILED*) tail -n 20 "$log/$name" ;; esac
    case $result in FAILED*) failed=1 ;; esac
    table="$table$(printf '%-12s %4d s  %s' "$name" $(($(date +%s) - start)) "$result")
"
    echo "== $name: $result"
}

"$here/sinter" doctor | grep '^cuda' || exit 2
if ! "$here/sinter" doctor | grep -q '^cuda:0:'; then
    echo 'skipped: no GPU here'
    exit 77
fi
part digits 60 sh "$self" --part digits
part ops 150 "$here/test_ops" cuda
part blaslt 90 env -u SINTER_CUDA_BLASLT "$here/test_cuda_blaslt"
for program in "$here"/test_cuda_*; do
    name=$(basename "$program" | sed s/test_cuda_//)
    [ "$name" = blaslt ] || part "$name" 60 "$program"
done
part bench 90 env -u SINTER_CUDA_BLASLT "$here/sinter" bench --device=cuda --bytes="$GPU_BYTES" --seconds=0.3 device/
part fuzz 60 env -u SINTER_CUDA_BLASLT "$here/fuzz" --device=cuda --graphs 100 --seed 1
part torch 120 sh "$self" --part torch
part memcheck 120 sh "$self" --part memcheck
printf '\n%s' "$table"
exit $failed
