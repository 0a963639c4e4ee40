#!/bin/sh
# acceptance.sh WANT ROOT ENTRIES [awk options]: acceptance.awk on the tree's tests; ENTRIES lists the ctest entries,
# one a line. WANT `fresh`: the check, and that acceptance.md is what the table says.
want=$1 root=$2 list=$3
shift 3
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
{
    cat "$list"
    for label in unit cuda; do # a program's tests, by its entry's name
        grep -oE '^START_TEST\([a-z0-9_]+\)' "$root/tests/$label"/test_*.c |
            sed -E "s,^.*/(test_[a-z0-9_]+)\.c:START_TEST\((.*)\)\$,$label.\1 \2,"
    done
} >"$work/tests"
table() { awk -f "$root/tests/acceptance.awk" "$@" "$work/tests" "$root/tests/acceptance.def"; }
[ "$want" = fresh ] || { table -v want="$want" "$@" && exit 0 || exit 1; }
table -v want=check "$@" || exit 1
table -v want=page "$@" | diff "$root/tests/acceptance.md" - && exit 0
echo "tests/acceptance.md is not what acceptance.def says: ./dev acceptance --page"
exit 1
