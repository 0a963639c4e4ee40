#!/bin/sh
# check_install.sh CMAKE BUILD CC ROOT: what `cmake --install` leaves is whole, also where the prefix has been moved: the
# tool, its samples and a program built against the installed library find the installed LLVM module; pkg-config and
# CMake find the library, for C and C++; each header stands alone and names nothing that is not installed; licences of
# what is linked are there; the example of a plug-in builds by its Makefile, loads, and its op is good.
set -eu
cmake=$1 build=$2 cc=$3 root=$4
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
unset SINTER_LLVM_MODULE LD_LIBRARY_PATH
complain() { echo "check_install: $1"; exit 1; }
"$cmake" --install "$build" --prefix "$prefix/first" >/dev/null
mv "$prefix"/first/* "$prefix" && rmdir "$prefix/first"
lib=$(dirname "$(find "$prefix" -name libsinter.so)") # lib, or one with the machine's name
ls "$lib"/sinter-*/libsinter-llvm.so >/dev/null 2>&1 && llvm=yes || llvm=no # a build without LLVM has none to install
"$prefix/bin/sinter" doctor >"$prefix/said"
"$prefix/bin/sinter" help --man | cmp - "$prefix/share/man/man1/sinter.1"
"$prefix/bin/sinter" completion bash | cmp - "$prefix/share/bash-completion/completions/sinter"
grep -q '^llvm: absent' "$prefix/said" && found=no || found=yes
[ $llvm = $found ] || { cat "$prefix/said"; complain "the installed tool: LLVM $found, the build: $llvm"; }

docs=$prefix/share/doc/sinter
cmp "$root/LICENSE" "$docs/LICENSE"
# LLVM's symbols are in the module where its archives were linked, and so is then its licence beside ours.
if [ $llvm = yes ] && ! readelf -d "$lib"/sinter-*/libsinter-llvm.so | grep -q 'NEEDED.*libLLVM'; then
    grep -qi 'LLVM Exceptions' "$docs/LICENSE.llvm" || complain "LLVM is linked, its licence is not installed"
fi
folders='(frontend|ir|passes|codegen|kernels|runtime|tests|samples)'
named=$(cd "$prefix/include/sinter" &&
    grep -nEo "\\b$folders/[A-Za-z]\\S*|\\b[A-Za-z]\\w*\\.(md|def|sh|py|cmake)\\b|semantics [A-Z][0-9]+" ./*.h) &&
    complain "installed headers name what is not installed: $named"
[ -d "$docs/examples/plugin" ] || complain "the example that sinter/plugin.h names is not installed"
"$prefix/bin/sinter" run hello >"$prefix/said" || complain "the installed tool does not run hello"
grep -q '^fn: 2 calls, 1 graph' "$prefix/said" || complain "hello says something else"
(cd "$prefix/bin" && SINTER_CACHE_DIR=off ./sinter run digits --steps 20 --json) >"$prefix/said" ||
    complain "the installed tool does not run digits"
grep -q '"digest": "0410ee3b108cdde7"' "$prefix/said" || complain "digits trains to other parameters"
[ $llvm = no ] || grep -q '"compiled_share": 1' "$prefix/said" || complain "digits ran without generated code"

uses() { # COMMAND...: a program built by it runs, and compiled functions generate code
    SINTER_REPORT=explain SINTER_REPORT_FILE="$prefix/report" "$@" >/dev/null
    [ $llvm = no ] || ! grep -q 'no generated code' "$prefix/report" || { cat "$prefix/report"; exit 1; }
    [ -s "$prefix/report" ] || complain "the program reported nothing"
}
if nm -D "$lib/libsinter.so" | grep -q -e __asan_ -e __tsan_ -e __ubsan_; then
    exit 0 # an instrumented library brings its own runtime: no program of another compiler's is linked with it
fi
for header in "$prefix"/include/sinter/*.h; do
    "$cc" -std=c11 -fsyntax-only -Wall -Werror -I "$prefix/include" -x c "$header" || complain "$header does not stand alone"
done
"$cc" -std=c11 -I "$prefix/include" "$docs/examples/hello.c" -L "$lib" -lsinter -lm -Wl,-rpath,"$lib" \
    -o "$prefix/program"
uses "$prefix/program"

# A library says its function's closure and inputs by the installed header, and the installed tool takes it.
cat >"$prefix/model.c" <<'EOF'
#include <sinter/sinter.h>
#include <sinter/target.h>
static sn_status scaled(sn_frame *f) {
    const double *const by = sn_closure(f);
    return sn_out(f, 0, sn_relu(sn_mul_scalar(sn_in(f, 0), sn_float(*by))));
}
SN_TARGET(scaled, target) {
    static double by = 0.5;
    target->body = scaled;
    target->closure = &by;
    sn_target_input(target, sn_val(sn_randn(SN_INTS(4, 8), SN_F32)));
}
EOF
target=$prefix/model.so:scaled
"$cc" -std=c11 -g -shared -fPIC -Wall -Werror -I "$prefix/include" "$prefix/model.c" -o "$prefix/model.so"
"$prefix/bin/sinter" explain "$target" >"$prefix/said" || complain "the installed tool does not take a target"
grep -q '^scaled: 3 calls, 1 graph' "$prefix/said" || complain "the target says something else"
"$prefix/bin/sinter" verify "$target" >"$prefix/said" || complain "verify of the target: $(cat "$prefix/said")"
"$prefix/bin/sinter" report "$target" -o "$prefix/page.html" || complain "no page of the target"
grep -q 'model.c:' "$prefix/page.html" || complain "the page of the target has no lines"

command -v pkg-config >/dev/null || exit 0
export PKG_CONFIG_PATH="$lib/pkgconfig"
version=$("$prefix/bin/sinter" doctor | sed -n 's/^version: //p')
[ "$(pkg-config --modversion sinter)" = "$version" ] || complain "pkg-config says another version than $version"
mkdir "$prefix/consumer"
cp "$root/samples/hello.c" "$prefix/consumer/c.c" && cp "$root/samples/work.h" "$prefix/consumer"
cat >"$prefix/consumer/cpp.cpp" <<'EOF'
#include <sinter/sinter.h>
#include <cstdio>
static sn_status twice_cpu(sn_frame *f) {
    SN_REQUIRE(sn_dtype_of(sn_in(f, 0)) == SN_F32, SN_ERR_DTYPE, "x must be f32");
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(2)));
}
SN_PLUGIN { return sn_check(); }
int main() {
    sn_op_desc desc = {};
    desc.size = sizeof desc, desc.schema = "cpp::twice(Tensor x) -> Tensor", desc.cpu = twice_cpu;
    const int64_t size = 3;
    sn_value x = sn_val(sn_ones(sn_ints{&size, 1}, SN_F32));
    std::puts(sn_repr(sn_op_call1(sn_op_register(&desc), &x, 1)));
    return sn_finish();
}
EOF
cat >"$prefix/consumer/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES C CXX)
find_package(sinter 0.2 REQUIRED)
add_executable(c c.c)
add_executable(cpp cpp.cpp)
target_link_libraries(c PRIVATE sinter::sinter m)
target_link_libraries(cpp PRIVATE sinter::sinter)
EOF
"$cmake" -S "$prefix/consumer" -B "$prefix/consumer/build" -DCMAKE_PREFIX_PATH="$prefix" >"$prefix/log" 2>&1 &&
    "$cmake" --build "$prefix/consumer/build" >>"$prefix/log" 2>&1 || { cat "$prefix/log"; complain "the CMake package"; }
uses "$prefix/consumer/build/c"
[ "$("$prefix/consumer/build/cpp")" = 'tensor([2., 2., 2.])' ] || complain "the C++ consumer prints something else"

command -v make >/dev/null || exit 0
cp -r "$docs/examples/plugin" "$prefix/plugin"
[ "$(wc -l <"$prefix/plugin/Makefile")" -le 10 ] || complain "the plug-in's Makefile has more than 10 lines"
make -s -C "$prefix/plugin" CC="$cc" >"$prefix/log" 2>&1 || { cat "$prefix/log"; complain "the plug-in's Makefile"; }
said=$("$prefix/bin/sinter" plugin "$prefix/plugin/scale.so")
[ "$said" = 'my::scale(Tensor x, float by=2.0) -> Tensor' ] || complain "the plug-in registers: $said"
said=$("$prefix/bin/sinter" opcheck "$prefix/plugin/scale.so:my::scale")
[ "$said" = 'my::scale: good' ] || complain "the plug-in's op: $said"
