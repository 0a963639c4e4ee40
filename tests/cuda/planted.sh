#!/bin/bash
# planted.sh BIN LIB DEF [NAME...]: makes each mistake of planted.def on the emulated device (LIB) and runs the test that
# must fail then (BIN). Prints a line for each and how many of how many were caught; fails where one was not.
set -uo pipefail
bin=$1 lib=$2 def=$3
shift 3
export SINTER_CUDA_DRIVER=$lib/libemulated_cuda.so SINTER_CUDA_NVRTC=$lib/libemulated_nvrtc.so SINTER_CUDA_BLASLT=none
export SINTER_CACHE_DIR=off CK_TIMEOUT_MULTIPLIER=20
log=$(mktemp)
trap 'rm -f "$log"' EXIT
caught=0 all=0

plant() {
  local name=$1 test=$2 program words plain=()
  read -ra words <<<"$test"
  if [ "${words[0]}" = plain ]; then plain=(SINTER_PLAIN_MALLOC=1) words=("${words[@]:1}"); fi
  program=$bin/${words[0]}
  all=$((all + 1))
  if env "${plain[@]}" EMULATED_PLANTED="$name" timeout 300 "$program" "${words[@]:1}" >"$log" 2>&1; then
    if grep -q "^planted: $name\$" "$log"; then echo "$name: MISSED by $test"; else echo "$name: NOT MADE in $test"; fi
  elif ! grep -q "^planted: $name\$" "$log"; then
    echo "$name: $test failed without it"
  else
    caught=$((caught + 1))
    echo "$name: caught by $test"
  fi
}

while IFS=$'\t' read -r name test; do
  if [ $# -gt 0 ] && ! printf '%s\n' "$@" | grep -qx "$name"; then continue; fi
  plant "$name" "$test" </dev/null
done < <(sed -nE 's/^(TEXT|FAULT)\((\w+), "([^"]*)".*/\2\t\3/p' "$def")
echo "$caught of $all planted mistakes caught"
[ "$all" -gt 0 ] && [ "$caught" -eq "$all" ]
