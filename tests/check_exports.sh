#!/bin/sh
# check_exports.sh LIBSINTER: the shared library exports only sn_ symbols and does not need LLVM or CUDA:
# what it needs at load time is libc's family [design section 9, semantics O4].
lib=$1
[ -f "$lib" ] || { echo "$lib is not there"; exit 2; }
bad=$(nm -D --defined-only "$lib" | awk '{print $3}' | grep -v -e '^sn_' -e '^_init$' -e '^_fini$')
needed=$(readelf -d "$lib" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v -E '^(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux-x86-64)\.so|^lib(asan|ubsan|tsan)')
[ -z "$bad" ] || echo "exported without the prefix sn_: $bad"
[ -z "$needed" ] || echo "needed at load time: $needed"
[ -n "$(nm -D --defined-only "$lib" | grep ' sn_')" ] || { echo "exports nothing"; exit 1; }
[ -z "$bad$needed" ]
