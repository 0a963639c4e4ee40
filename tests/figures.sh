#!/usr/bin/env bash
# figures.sh ROOT BUILD: what the code base is like, in counts (`./dev map --figures`): of the sources, and what the tests of
# label tree say that keep a count from growing.
set -euo pipefail
cd "$1"
build=$2
library=(frontend ir passes codegen kernels runtime)

figure() { printf '%8s  %s\n' "$1" "$2"; }
sources() { find "$@" -name '*.[ch]' -o -name '*.def' -o -name '*.cu' -o -name '*.cuh'; }
# Fields of a struct: its lines that end one, each with as many as it has names.
fields() { # STRUCT FILE
  awk -v name="$1" '$0 ~ "^(typedef )?struct " name " [{]$" { inside = 1; next }
    inside && /^}/ { exit }
    inside && /^(#| *[*}])/ { next }
    inside { sub(/\/\*.*/, ""); if (/;/) { n += 1 + gsub(/, /, "") } }
    END { print n + 0 }' "$2"
}
rows() { { grep -hE "^($1)[(]" "${@:2}" || true; } | wc -l; } # WORDS FILE...
uses() { { grep -rhowE --include='*.[ch]' "$1" "${library[@]}" || true; } | wc -l; }
# Functions of the house format, as check_sizes.c knows them.
function_lines() {
  sources "${library[@]}" | grep '[.]c$' | xargs awk '
    /^[^# \t\/*}].*[(].*[{]$/ { first = FNR }
    /^}$/ && first { print FNR - first + 1; first = 0 }' | sort -n
}

echo "lines"
for folder in "${library[@]}" tests samples; do figure "$(sources "$folder" | xargs cat | wc -l)" "$folder"; done

echo "functions of the library"
mapfile -t lengths < <(function_lines)
figure ${#lengths[@]} "functions of more than a line"
figure "${lengths[${#lengths[@]} / 2]}" "lines, the median"
figure "${lengths[${#lengths[@]} * 9 / 10]}" "lines, the 90th percentile"
figure "${lengths[-1]}" "lines, the longest"

echo "a thread's state and a variant"
figure "$(rows 'FIELD|MODE' runtime/core/context.def)" "fields of Context: modes of a thread, and who watches it"
figure "$(fields sn_state runtime/core/state.h)" "fields of sn_state beside it"
figure "$(rows REASON runtime/core/context_reasons.def)" "reasons for which code of ours changes it in the middle of a program's"
figure "$(uses 'context_enter(_scope)?')" "places that do"
figure "$(fields Variant runtime/capture/variant/variant.h)" "fields of Variant"

echo "rows"
figure "$(rows OP ir/ops/*.def)" "ops"
figure "$(rows PASS passes/passes.def)" "passes"
figure "$(rows BREAK runtime/core/breaks.def)" "reasons of graph breaks"
figure "$(rows API frontend/api.def)" "public functions"

echo "what tests say"
ctest --test-dir "$build" -V -R 'tree[.]check_(cycles|names|rebuild)' |
  sed -nE 's/^[0-9]+: (.*(circle \(|prefix \(|a new op of).*)$/          \1/p'
