#!/usr/bin/env bash
# check_map.sh ROOT HEADER: every source file has a line in the map that says what it is (tests/map.sh), nearly every one
# in C the tests that show it, and every public function a place in the pages of the API (frontend/gen/docs.sh), every op one in the table of PyTorch's calls.
set -euo pipefail
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() { echo "$*" && failed=1; }

tests/map.sh . >"$work/map.md"
files=$(find frontend ir passes codegen kernels runtime samples tests -name '*.[ch]' -not -path 'tests/abi/*' | wc -l)
lines=$(grep -cE '^- `[^`]*[.][ch]` [^ ]' "$work/map.md")
[ "$lines" -eq "$files" ] || complain "$files files in C, of which the map says what $lines are"
if grep -E '^- `[^`]*` *$' "$work/map.md"; then complain "files whose first comment does not say what they are"; fi
# A test that names it, a table's word, a file that calls it: one for each rule of map_tests.awk. What only tables and
# generated code reach has none.
line_has() { grep -qE "^- \`$1\` .*[(]shown $2" "$work/map.md" || complain "the map does not say that $1 is shown $2"; }
line_has sym.c 'by unit[.]test_sym'
line_has meta_window.c 'by test_ops MODE aten::'
line_has replay.c 'through [a-z_]+[.]c: '
line_has cse.c 'by golden[.]passes/cse[.]sn'
of=$(grep -cE '^- `[^`]*[.]c` .*[(]shown ' "$work/map.md")
sources=$(find frontend ir passes codegen kernels runtime -name '*.c' | wc -l)
[ "$of" -ge $((sources * 90 / 100)) ] || complain "the map says of $of of $sources sources which tests show them"

frontend/gen/docs.sh frontend/sinter/*.h "$2" "$work/docs"
for name in $(sed -nE 's/^API\((sn_[a-z0-9_]+), .*/\1/p' frontend/api.def); do
  grep -qF "\`$name\`" "$work/docs/index.md" || complain "$name is on no page"
done
ops=$(grep -cE 'aten::[A-Za-z0-9_.]+\(.*\*/$' "$2")
rows=$(grep -cE '^\| `torch[.]ops[.]aten[.][^`]*` \| `sn_' "$work/docs/pytorch.md")
[ "$rows" -eq "$ops" ] || complain "$ops ops, $rows of them in the table of PyTorch's calls"
exit $failed
