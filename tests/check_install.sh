#!/bin/sh
# check_install.sh CMAKE BUILD CC PROGRAM: what `cmake --install` leaves is whole: the tool and a program built against the
# installed library find the installed LLVM module, wherever the prefix is.
set -eu
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
unset SINTER_LLVM_MODULE LD_LIBRARY_PATH
"$1" --install "$2" --prefix "$prefix" >/dev/null
[ -e "$2/lib/libsinter-llvm.so" ] && llvm=yes || llvm=no # a build without LLVM has none to install
"$prefix/bin/sinter" doctor >"$prefix/said"
grep -q '^llvm: absent' "$prefix/said" && found=no || found=yes
[ $llvm = $found ] || { echo "the installed tool: LLVM $found, the build: $llvm"; cat "$prefix/said"; exit 1; }
"$3" -std=c11 -I "$prefix/include" "$4" -L "$prefix/lib" -lsinter -lm -Wl,-rpath,"$prefix/lib" -o "$prefix/program"
SINTER_REPORT=explain SINTER_REPORT_FILE="$prefix/report" "$prefix/program" >/dev/null
[ $llvm = no ] || ! grep -q 'no generated code' "$prefix/report" || { cat "$prefix/report"; exit 1; }
[ -s "$prefix/report" ] || { echo "the program reported nothing"; exit 1; }
