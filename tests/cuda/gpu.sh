#!/bin/sh
# gpu.sh: what `./dev gpu` packs as `run`: the tests that it lies beside, on this machine's GPU. Prints the GPU, then each
# test with its result; what needs the emulated driver, or two GPUs, says that it is left out. Exits 77 without a GPU.
cd "$(dirname "$0")" || exit 2
unset SINTER_CUDA_DRIVER EMULATED_CUDA
export LD_LIBRARY_PATH="$PWD${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
./sinter doctor | grep '^cuda' || exit 2
if ! ./sinter doctor | grep -q '^cuda:0:'; then
    echo 'skipped: no GPU here'
    exit 77
fi
CK_VERBOSITY=verbose timeout 300 ./test_cuda_device
