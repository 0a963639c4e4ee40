#!/usr/bin/env bash
# check_wheel.sh WHEEL PYTHON: a wheel of frontend/python as a user gets it.
#  1. At most 20 MB, one for every Python 3, manylinux_2_34; no file twice.
#  2. In a fresh virtual environment, without anything else, importing opens nothing, and a text graph compiles.
#  3. In a bare root, which has this Python, the C and C++ libraries that manylinux lets wheels expect, and no compiler and
#     no LLVM, code is generated.
set -euo pipefail
wheel=$(realpath "$1") python=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
complain() { echo "check_wheel: $1" && exit 1; }

case ${wheel##*/} in *-py3-none-manylinux_2_34_x86_64.whl) ;; *) complain "it is called ${wheel##*/}" ;; esac
[ "$(stat -c %s "$wheel")" -le 20000000 ] || complain "it has $(stat -c %s "$wheel") bytes, more than 20 MB"

"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --no-deps --no-index "$wheel"
cp "$here/test_import.py" "$work/"
(cd "$work" && env -u SINTERJIT_LIBRARY -u PYTHONPATH venv/bin/python test_import.py)
cat >"$work/generates.py" <<'PROGRAM'
import array, ctypes, sinterjit
from sinterjit import library as l
f = sinterjit.Function("graph f(%x: f32[4]) { %0 = aten::exp(%x) %1 = aten::mul.Tensor(%0, %0) return %1 }")
x = (ctypes.c_float * 4)(0, 1, 2, 3)
for _ in range(3):
    with l.Scope():
        sizes = (ctypes.c_int64 * 1)(4)
        blob = l.Blob(size=ctypes.sizeof(l.Blob), data=ctypes.addressof(x), bytes=16, dtype=2)
        blob.sizes.data, blob.sizes.n = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64)), 1
        y = f(sinterjit.Tensor(l.lib().sn_keep(l.owned(l.lib().sn_wrap(blob)))))
print(repr(y), f.stats()["ops_generated"])
assert f.stats()["ops_generated"] >= 2 and f.stats()["ops_interpreted"] == 0
PROGRAM
(cd "$work" && env -u SINTERJIT_LIBRARY -u PYTHONPATH SINTER_CACHE_DIR=off venv/bin/python generates.py)

# A root with this Python's own files and the libraries that these and the policy name.
user=()
[ "$(id -u)" = 0 ] || user=(--map-root-user)
root=$work/root
unshare "${user[@]}" --mount true 2>/dev/null || { echo "no root of one's own can be made here" && exit 77; }
mkdir -p "$root/tmp" "$root/dev"
base=$("$python" -c 'import sys; print(sys.base_prefix)')
stdlib=$("$python" -c 'import sysconfig; print(sysconfig.get_path("stdlib", vars={"installed_base": __import__("sys").base_prefix}))')
interpreter=$(realpath "$(command -v "$base/bin/python3" || command -v "$python")")
mkdir -p "$root$(dirname "$interpreter")" "$root$(dirname "$stdlib")"
cp "$interpreter" "$root$interpreter"
cp -r "$stdlib" "$root$(dirname "$stdlib")/"
rm -rf "$root$stdlib/site-packages" "$root$stdlib/test"
expected=$(ldconfig -p | awk '/x86-64/ && $1 ~ /^(libz[.]so[.]1|libstdc[+][+][.]so[.]6|libgcc_s[.]so[.]1|libm[.]so[.]6|libc[.]so[.]6|libdl[.]so[.]2|libpthread[.]so[.]0)$/ { print $NF }')
{ ldd "$interpreter" "$root$stdlib"/lib-dynload/*.so 2>/dev/null | awk '/=> \// { print $3 } $1 ~ /^\/lib/ && /ld-linux/ { print $1 }'; echo "$expected"; } |
  sort -u | while read -r file; do
    [ -f "$file" ] || continue
    mkdir -p "$root$(dirname "$file")" && cp -L "$file" "$root$file"
  done
mkdir -p "$root/packages" && "$python" -m zipfile -e "$wheel" "$root/packages"
cp "$work/generates.py" "$root/tmp/"
unshare "${user[@]}" --mount chroot "$root" "$interpreter" -c "
import os, sys
os.environ.update(SINTER_CACHE_DIR='off', LD_LIBRARY_PATH='')
sys.path.insert(0, '/packages')
exec(open('/tmp/generates.py').read())"
echo "a wheel of $(stat -c %s "$wheel") bytes: venv and bare root pass"
