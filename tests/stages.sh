# stages.sh: what `./dev test` does, as a table of stages. dev sources it, and has say, configure, build and format.
#
#   name     begins the line that says how long it took, and may be given: ./dev test --stage NAME
#   when     push: always; all: for `./dev test --all` alone; asked: by its name, or --python
#   command  a function: its arguments are a regex of tests, if one was given
#
#   stage        every push                                          --all
#   format       clang-format of all C                               the same
#   tests        unit, golden, samples, cases, tree; ops on pairs;   all cases of ops, on the CPU and twice on CUDA; 100
#                cuda with 20 random programs; 300 random programs;  random programs of cuda, and those once found; 1,000
#                a part (sn_part) of random nests and products,      random programs; NVIDIA's compiler, where it is
#                without NVIDIA's compiler
#   sanitizers   unit, golden, ops on pairs, but for what is about   unit, ops, golden, samples, cases, cuda whole
#                numbers, generated code, times or pages
#                (SINTER_SANITIZE in CMakeLists.txt); 20 random
#                programs of cuda
#   threads      the programs that the function lists                the same
#   clang        golden and samples, without four tools              the same, after a build of everything
#   casts                                                            op samples with numbers that few dtypes hold, under
#                                                                    -fsanitize=float-cast-overflow
#   handles                                                          unit with the setting check_handles
#   packages                                                         the Debian packages, in a root that has what they
#                                                                    depend on and nothing else
#
# and by ./dev test --python [--all] nothing but the tests of frontend/python, for which it installs PyTorch.
#
# $everything is 1 for --all: a stage then runs what it has whole, and else what stands for it (labels all and push of
# tests/CMakeLists.txt). A stage that compiles takes from the first build what is the same in every one.
stages='
format      push  stage_format
tests       push  stage_tests
sanitizers  push  stage_sanitizers
threads     push  stage_threads
clang       push  stage_clang
casts       all   stage_casts
handles     all   stage_handles
packages    all   stage_packages
python      asked stage_python
'
everything=0

# left_out [REGEX]: what ctest is told of the second labels. A regex names tests wherever they belong.
left_out() {
  [ $# = 0 ] || return 0
  if [ $everything = 1 ]; then echo '-LE ^push$'; else echo '-LE ^all$'; fi
}

# run_ctest DIR LABELS [REGEX]: the labels' tests of a build, those of this kind of run, but for what $without names.
without=
run_ctest() {
  local dir=$1 labels=$2
  shift 2
  # shellcheck disable=SC2046  # two words, or none
  ctest --test-dir "$dir" --output-on-failure --no-tests=error -j "$(nproc)" -L "$labels" $(left_out "$@") ${1:+-R "$1"} \
    ${without:+-E "$without"}
}

stage_format() { format --check; }

stage_tests() {
  build "$build" all
  run_ctest "$build" . "$@"
}

# The tests' environment knows what they must overlook (tests/CMakeLists.txt).
stage_sanitizers() {
  local labels='unit|golden|ops' targets=(tests_unit tests_golden tests_ops) random='^cuda[.]fuzz(_reordered)?-[0-9]+$'
  if [ $everything = 1 ] || [ $# -gt 0 ]; then
    labels='unit|ops|golden|samples|cases|cuda' targets=(all)
  fi
  if [ $# -gt 0 ] && ctest --test-dir "$build" -N -L "$labels" -R "$1" | grep -qx 'Total Tests: 0'; then
    say "no test of the labels $labels matches '$1': none runs under sanitizers"
    return 0
  fi
  configure_sanitized
  build "$sanitized" "${targets[@]}"
  run_ctest "$sanitized" "$labels" "$@"
  [ $everything = 0 ] && [ $# = 0 ] || return 0
  build "$sanitized" fuzz
  run_ctest "$sanitized" cuda "$random"
}

# The programs whose tests have several threads at work: only they are built with the sanitizer that sees races.
stage_threads() {
  local programs=(test_threads test_engine test_parallel test_contract_c_threads test_background test_cuda_background
    test_cuda_device test_cuda_streams test_races)
  local tsan="$build-tsan" chosen=() name
  for name in "${programs[@]}"; do
    if [ $# -eq 0 ] || grep -qE -- "$1" <<<"unit.$name cuda.$name"; then chosen+=("$name"); fi
  done
  [ ${#chosen[@]} -gt 0 ] || return 0
  configure_beside "$tsan" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g1" -DSINTER_SANITIZE=thread
  build "$tsan" "${chosen[@]}"
  run_ctest "$tsan" . "^(unit|cuda)\.($(IFS='|' && echo "${chosen[*]}"))\$"
}

# What a user sees of the library is the same by the other compiler: texts, lines of graph breaks, bits.
stage_clang() {
  local other="$build-clang" targets=(tests_golden tests_samples)
  [ $# -eq 0 ] || return 0
  [ $everything = 0 ] || targets=(all)
  configure_beside "$other" -DCMAKE_C_COMPILER=clang-19
  build "$other" "${targets[@]}"
  # Times, and tools that call the others many times, say nothing more there.
  local without=
  [ $everything = 1 ] || without='^golden[.]tool(/bench|-samples|-reduce|-dumped)'
  run_ctest "$other" 'golden|samples'
}

# No float becomes an int by a cast of C that is undefined for it: op samples with numbers that few dtypes hold, and with
# every wrong argument.
stage_casts() {
  local casts="$build-casts"
  [ $# -eq 0 ] || return 0
  configure_beside "$casts" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g1" -DSINTER_SANITIZE=float-cast-overflow
  build "$casts" test_ops
  run_ctest "$casts" ops '^ops[.](numbers|wrong|compiled|errors)$'
}

# No test uses a handle behind its end: each that did would get an error with the lines of its birth and its end.
stage_handles() {
  [ $# -eq 0 ] || return 0
  build "$build" tests_unit
  SINTER_CHECK_HANDLES=1 run_ctest "$build" unit
}

# A build for a distribution's folders, without the tests.
stage_packages() {
  local deb="$build-deb" made code=0
  [ $# -eq 0 ] || return 0
  packages+=(lintian) && need_packages
  configure_beside "$deb" -DCMAKE_INSTALL_PREFIX=/usr -DBUILD_TESTING=OFF
  build "$deb" all
  made=$(mktemp -d)
  cpack -G DEB --config "$deb/CPackConfig.cmake" -B "$made" >"$deb/cpack.log" 2>&1 ||
    { cat "$deb/cpack.log" >&2 && return 1; }
  tests/check_packages.sh "$made" . cc || code=$?
  rm -rf "$made"
  [ $code = 77 ] || return $code
}

# The Python package beside PyTorch.
stage_python() {
  python_packages 'torch, numpy, transformers, timm, diffusers, expecttest' \
    torch numpy transformers timm diffusers expecttest hypothesis
  build "$build" sinter_lib sinter-llvm
  SINTER_VENV=${SINTER_VENV:-$(realpath "$build")/venv} run_ctest "$build" '^python$' "$@"
  [ $everything = 0 ] || [ $# -gt 0 ] || wheel
}

# seconds_used: of the processors, by all that has ended so far, in user mode and system (proc(5), cutime and cstime).
seconds_used() { awk -v tick="$(getconf CLK_TCK)" '{ printf "%d", ($16 + $17) / tick }' "/proc/$$/stat"; }

# run_stage NAME COMMAND [REGEX]: and adds a line to $spent.
run_stage() {
  local name=$1 before=$SECONDS used
  used=$(seconds_used) running=$1
  shift
  say "stage $name"
  "$@"
  running=
  spent+=$(printf '\n%-12s %6d s %6d s' "$name" $((SECONDS - before)) $(($(seconds_used) - used)))
}

say_spent() {
  [ -z "$running" ] || spent+=$(printf '\n%-12s failed' "$running")
  [ -n "$spent" ] || return 0
  say "stage          wall   of processors$spent"
  say "$(printf '%-12s %6d s %6d s on %d of them' 'all stages' $((SECONDS - began)) "$(seconds_used)" "$(nproc)")"
}

# run_tests [--all] [--stage NAME] [REGEX]
run_tests() {
  local only= name when command
  spent= running= began=$SECONDS
  while [ $# -gt 0 ]; do
    case $1 in
      --all) everything=1 ;;
      --python) only=python ;;
      --stage) only=${2:?--stage wants a name} && shift ;;
      --*) say "unexpected '$1': ./dev test [--all] [--python | --stage NAME] [REGEX]" && exit 2 ;;
      *) break ;;
    esac
    shift
  done
  if [ -n "$only" ] && ! awk -v name="$only" '$1 == name { found = 1 } END { exit !found }' <<<"$stages"; then
    say "no stage is called '$only'; there are: $(awk 'NF { printf "%s ", $1 }' <<<"$stages")" && exit 2
  fi
  need_packages
  configure "$build"
  EMULATED_CUDA_CACHE=$(realpath "$build")/emulated # one for all builds: sanitizers do not change what kernels are
  export EMULATED_CUDA_CACHE
  trap say_spent EXIT
  while read -r name when command; do
    [ -n "$name" ] || continue
    [ -z "$only" ] || [ "$only" = "$name" ] || continue
    [ "$when" = push ] || [ "$when$everything" = all1 ] || [ -n "$only" ] || continue
    run_stage "$name" "$command" "$@" </dev/null
  done <<<"$stages"
}
