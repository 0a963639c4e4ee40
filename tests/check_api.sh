#!/bin/sh
# check_api.sh LIBSINTER ROOT GENERATED CC: the public headers against the library.
#  1. every function that a header declares is exported, and the other way round;
#  2. each exported function outside the generated ops.h has one row in frontend/api.def, with a class that
#     semantics C3 lists and an entry that goes with it, and no row is left over; the header's [class] says the same; and
#     its body begins with API_ENTER of its own name, or has none where the entry is `none`;
#  3. what messages, hints and help call sn_... or SN_... is declared: nobody is sent to a function that does not exist;
#  4. each header alone is C11 without a warning, and a program that names every declared function links and runs.
lib=$1 root=$2 generated=$3 cc=$4
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failed=0
complain() { # TEXT FILE: prints the lines of FILE after TEXT, if there are any
    [ -s "$2" ] || return 0
    echo "$1:" && sed 's/^/  /' "$2"
    failed=1
}
declared() { # HEADER...: names of the functions they declare; inline ones and types left out
    for header in "$@"; do echo "#include \"$header\""; done |
        "$cc" -E -P -I "$root/frontend" -I "$generated" -x c - |
        sed -e '/^static inline.*}$/d' -e '/^static inline/,/^}/d' |
        grep -oE '\bsn_[A-Za-z0-9_]+\(' | tr -d '(' | sort -u
}
export LC_ALL=C
declared sinter/sinter.h >"$work/declared" && [ -s "$work/declared" ] || exit 2
nm -D --defined-only "$lib" | awk '{ print $3 }' | grep '^sn_' | sort -u >"$work/exported"
comm -23 "$work/declared" "$work/exported" >"$work/missing"
comm -13 "$work/declared" "$work/exported" >"$work/unknown"
complain "declared in a header, not exported" "$work/missing"
complain "exported, declared in no header" "$work/unknown"

sed -n 's/^API(\(sn_[A-Za-z0-9_]*\), \([a-z]*\), \([a-z]*\))$/\1 \2 \3/p' "$root/frontend/api.def" >"$work/entries"
awk '{ print $1, $2 }' "$work/entries" >"$work/rows"
awk '{ print $1 }' "$work/rows" | sort >"$work/classed"
uniq -d "$work/classed" >"$work/twice"
grep -vE ' (op|event|meta|flush|neutral|refused)$' "$work/rows" >"$work/odd"
sed -n 's/.*\b\(sn_[A-Za-z0-9_]*\)(.*;$/\1/p' "$generated/sinter/ops.h" | sort -u >"$work/ops"
sort -u "$work/classed" "$work/ops" | comm -13 - "$work/exported" >"$work/unclassed"
comm -23 "$work/classed" "$work/exported" >"$work/left_over"
comm -12 "$work/classed" "$work/ops" >>"$work/twice"
complain "exported without a capture class" "$work/unclassed"
complain "a class for a function that is not exported" "$work/left_over"
complain "classed twice" "$work/twice"
complain "not a capture class" "$work/odd"
awk -f "$root/tests/api_tags.awk" "$root"/frontend/sinter/*.h | sort >"$work/tagged"
sort "$work/rows" | comm -3 - "$work/tagged" >"$work/untrue"
complain "api.def, and (to the right) what the header says" "$work/untrue"

allowed='(op|flush) (place|here|enter)|event (place|here|enter)|(meta|neutral) (place|here|enter|none)'
grep -vE " ($allowed|refused (outside|alone|enter))$" "$work/entries" >"$work/odd_entry"
complain "not an entry for that class" "$work/odd_entry"
# A query without an entry asks the frame of the callback that calls it.
awk '/ meta none$/ { print $1 }' "$work/entries" | while read -r name; do
    grep -qE "\b$name\(sn_frame \*" "$root"/frontend/sinter/*.h || echo "$name"
done >"$work/unentered"
complain "a query of no frame whose entry is none" "$work/unentered"
awk '$3 != "none" { print $1 }' "$work/entries" | sort >"$work/entering"
awk -f "$root/tests/api_entries.awk" "$root"/frontend/api/*.c "$root"/frontend/lib/*.c | sort >"$work/entered"
comm -23 "$work/entering" "$work/entered" >"$work/without"
comm -13 "$work/entering" "$work/entered" >"$work/beside"
complain "the body has no API_ENTER of its name, which its row in api.def asks for" "$work/without"
complain "an API_ENTER that no row asks for" "$work/beside"

cat "$root"/frontend/sinter/*.h "$generated"/sinter/*.h | grep -oE '\b(sn|SN)_[A-Za-z0-9_]+' | sort -u >"$work/public"
find "$root/frontend" "$root/runtime" "$root/passes" -name gen -prune -o -name '*.[ch]' -print -o -name '*.def' -print |
    xargs -d '\n' grep -ohE '"([^"\]|\\.)*"' | grep -oE '\b(sn|SN)_[A-Za-z0-9]+[A-Za-z0-9_]*' | sort -u |
    comm -23 - "$work/public" >"$work/nowhere"
complain "named in a message, declared in no header" "$work/nowhere"

for header in "$root"/frontend/sinter/*.h "$generated"/sinter/*.h; do
    echo "#include \"$header\"" |
        "$cc" -std=c11 -Wall -Wextra -Werror -fsyntax-only -I "$root/frontend" -I "$generated" -x c - || failed=1
done
{
    echo '#include <sinter/sinter.h>'
    echo 'typedef void (*Any)(void);'
    echo 'static const volatile Any all[] = {'
    sed 's/.*/    (Any)&,/' "$work/declared"
    echo '};'
    echo 'int main(void) {'
    echo '    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) if (!all[i]) return 1;'
    echo '    return sn_version() == SN_VERSION ? 0 : 1;'
    echo '}'
} >"$work/all.c"
# An instrumented library brings its own runtime: only a plain one is linked and run.
if ! nm -D "$lib" | grep -q -e __asan_ -e __tsan_ -e __ubsan_; then
    "$cc" -std=c11 -I "$root/frontend" -I "$generated" "$work/all.c" "$lib" -o "$work/all" &&
        LD_LIBRARY_PATH=$(dirname "$lib") "$work/all" || { echo "a program that names every function fails"; failed=1; }
fi
exit $failed
