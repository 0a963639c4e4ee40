#!/bin/sh
# check_embedding.sh configure|build CMAKE GENERATOR CC ROOT LIBSINTER: Sinter within another CMake project, which is C
# only and lies, as Sinter does, in a path with a blank.
#  configure  by add_subdirectory: the project's variables, options and cache stay as they were, but for what begins with
#             SINTER_ or belongs to a language that CMake has enabled; targets begin with sn_ or sinter; no test comes.
#             And by FetchContent with libsinter.a.
#  build      a program by add_subdirectory(EXCLUDE_FROM_ALL) with libsinter.so, then by FetchContent with libsinter.a,
#             which defines the names that LIBSINTER exports and no other; both generate code. What the project installs
#             runs without the build, and serves a program linked by pkg-config, in another folder, too.
set -eu
part=$1 cmake=$2 generator=$3 cc=$4 root=$5 shared=$6
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset SINTER_LLVM_MODULE LD_LIBRARY_PATH CFLAGS LDFLAGS
complain() { echo "check_embedding: $1"; exit 1; }

said=$(cd "$root" && grep -n -E 'CMAKE_(SOURCE|BINARY)_DIR' CMakeLists.txt ./*/CMakeLists.txt ./*/*/CMakeLists.txt) &&
    complain "another project's folder is taken for Sinter's: $said"

here="$work/a parent"
mkdir -p "$here/project"
ln -s "$root" "$here/sinter"
cp "$root/samples/hello.c" "$root/samples/work.h" "$here/project"
cat >"$here/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES C)
set(CMAKE_C_STANDARD 99)
set(CMAKE_INSTALL_LIBDIR lib/own)
add_compile_options(-Werror -Wconversion)
function(note_state note_file) # every variable, the cache's names, what targets of this folder are made with
  get_cmake_property(note_names VARIABLES)
  get_cmake_property(note_cached CACHE_VARIABLES)
  set(note_text)
  foreach(note_name ${note_names})
    if(NOT note_name MATCHES "^(note_|ARG)")
      string(APPEND note_text "${note_name}=${${note_name}}\n")
    endif()
  endforeach()
  foreach(note_name COMPILE_OPTIONS COMPILE_DEFINITIONS INCLUDE_DIRECTORIES LINK_OPTIONS LINK_DIRECTORIES TESTS)
    get_property(note_value DIRECTORY PROPERTY ${note_name})
    string(APPEND note_text "${note_name} of the folder=${note_value}\n")
  endforeach()
  list(TRANSFORM note_cached APPEND " is cached\n")
  file(WRITE ${CMAKE_BINARY_DIR}/${note_file} "${note_text}" ${note_cached})
endfunction()
function(note_targets note_folder)
  get_property(note_names DIRECTORY ${note_folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(note_folders DIRECTORY ${note_folder} PROPERTY SUBDIRECTORIES)
  list(TRANSFORM note_names APPEND "\n")
  file(APPEND ${CMAKE_BINARY_DIR}/targets ${note_names})
  foreach(note_below ${note_folders})
    note_targets(${note_below})
  endforeach()
endfunction()
enable_testing()
note_state(before)
if(FETCH)
  include(FetchContent)
  FetchContent_Declare(sinter SOURCE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/../sinter)
  FetchContent_MakeAvailable(sinter)
else()
  add_subdirectory(../sinter ${CMAKE_BINARY_DIR}/_deps/sinter-build EXCLUDE_FROM_ALL)
  note_state(after)
  file(REMOVE ${CMAKE_BINARY_DIR}/targets)
  note_targets(../sinter)
endif()
add_executable(hello hello.c)
target_compile_options(hello PRIVATE -Wno-conversion)
target_link_libraries(hello PRIVATE sinter::sinter m)
install(TARGETS hello DESTINATION own)
END

configure() { # CMAKE-ARGS...
    "$cmake" -S "$here/project" -B "$here/build" -G "$generator" -DCMAKE_C_COMPILER="$cc" "$@" >"$work/log" 2>&1 ||
        { cat "$work/log"; complain "the project does not configure: $*"; }
}
generates() { # PROGRAM: it prints its tensor, and by code that was generated
    (cd / && SINTER_CACHE_DIR=off SINTER_REPORT=explain SINTER_REPORT_FILE="$work/report" "$1") >"$work/said" ||
        { cat "$work/said"; complain "$1 fails"; }
    grep -q '^  2 loop nests: 2 generated' "$work/report" || { cat "$work/report"; complain "$1 generated no code"; }
}

configure
changed=$(diff "$here/build/before" "$here/build/after" | grep '^[<>]' |
    grep -v -E '^> (SINTER_|sinter_(SOURCE_DIR|BINARY_DIR|IS_TOP_LEVEL)|CMAKE_ASM_)') &&
    complain "the project's state is another: $changed"
[ "$(wc -l <"$here/build/targets")" -ge 15 ] || complain "the targets were not seen"
foreign=$(grep -v -E '^(sn_|sinter)' "$here/build/targets") && complain "targets without a prefix: $foreign"
[ "$part" = build ] || { configure -DFETCH=ON -DBUILD_SHARED_LIBS=OFF && exit 0; }

build() {
    "$cmake" --build "$here/build" --target hello --parallel >"$work/log" 2>&1 ||
        { tail -n 40 "$work/log"; complain "the program does not build"; }
}
build
generates "$here/build/hello"
! nm --defined-only "$here/build/hello" | grep -q ' sn_compile$' || complain "the program has the library inside"

configure -DFETCH=ON -DBUILD_SHARED_LIBS=OFF -DCMAKE_INSTALL_PREFIX="$work/prefix"
build
generates "$here/build/hello"
nm --defined-only "$here/build/hello" | grep -q ' sn_compile$' || complain "the program has no library inside"
! readelf -d "$here/build/hello" | grep -q 'NEEDED.*sinter' || complain "the program opens the LLVM module when it starts"
archive=$here/build/_deps/sinter-build/lib/libsinter.a
nm -g --defined-only "$archive" | awk 'NF == 3 { print $3 }' | sort >"$work/defined"
nm -D --defined-only "$shared" | awk '{ print $3 }' | sort >"$work/exported"
diff "$work/exported" "$work/defined" || complain "libsinter.a defines other names than libsinter.so exports"

"$cmake" --install "$here/build" >/dev/null
[ -e "$work/prefix/lib/own/libsinter.a" ] || complain "nothing is installed where the project said"
mv "$here/build" "$here/gone"
! readelf -d "$work/prefix/own/hello" | grep -q "$here" || complain "the installed program looks into the build"
generates "$work/prefix/own/hello" # by the module in the configured prefix

command -v pkg-config >/dev/null || exit 0
mkdir "$work/prefix/bin"
# shellcheck disable=SC2046  # several words
"$cc" -fexceptions -o "$work/prefix/bin/hello" "$here/project/hello.c" \
    $(PKG_CONFIG_PATH="$work/prefix/lib/own/pkgconfig" pkg-config --cflags --libs --static sinter)
mv "$work/prefix" "$work/elsewhere"
generates "$work/elsewhere/bin/hello" # by the one beside it
