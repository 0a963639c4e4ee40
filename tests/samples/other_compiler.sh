#!/bin/bash
# other_compiler.sh CC ROOT GENERATED LIBSINTER -- CONDITION...: builds the digits sample with another C compiler than the
# library's, without a warning, and checks what it prints (check.sh).
cc=$1 root=$2 generated=$3 lib=$4
shift 5
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
"$cc" -std=gnu17 -O2 -Wall -Wextra -Werror -I "$root/frontend" -I "$generated" -DSAMPLE_DATA_DIR="\"$root/samples\"" \
    "$root/samples/digits.c" "$lib" -Wl,-rpath,"$(dirname "$lib")" -o "$work/digits" || exit 1
"$(dirname "$0")/check.sh" "$work/digits" --json -- "$@"
