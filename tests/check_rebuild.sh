#!/bin/sh
# check_rebuild.sh NINJA CMAKE CC ROOT BUILD GENERATOR-OBJECT...: what an edit of one row of the op table rebuilds.
#  1. By ninja's record of what each object has read, at most 20 objects read any one file of rows. (A dry run would not
#     do: it takes every generated header for changed.)
#  2. The files generated from the rows, which all code includes, stay untouched when a doc, a body, a derivative or a flag
#     changes: both generators run here on edited copies of the rows, op.c compiled anew for one of them.
#  3. A row more at the end of a family is a number more and renumbers no other op, and at most 60 objects of the library
#     read the numbers, the family or the functions made of it.
set -eu
ninja=$1 cmake=$2 cc=$3 root=$4 build=$5
shift 5
limit=20
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; exit 1; }

"$ninja" -n -C "$build" -t deps >"$work/deps"
for rows in "$root"/ir/ops.def "$root"/ir/ops/*.def; do
    file=${rows#"$root"/}
    awk -v file="/$file" '
        /^[^ ].*: #deps/ { object = $1; live = !/STALE/ }
        /^ / && live && substr($0, length($0) - length(file) + 1) == file { print object }' "$work/deps" |
        sort -u >"$work/readers"
    n=$(wc -l <"$work/readers")
    [ "$n" -ge 1 ] || fail "no object reads $file: is the build whole?"
    [ "$n" -le $limit ] || { cat "$work/readers"; fail "$n objects read $file, more than $limit"; }
    echo "$file: $n objects"
done

mkdir -p "$work/ir"
cp -R "$root/ir/ops.def" "$root/ir/ops" "$work/ir"
rows=$work/ir/ops/pointwise.def
sed -i -e 's/"self \* other\."/"A sentence that nobody wrote."/' -e 's/pointwise(binary, mul)/pointwise(binary, add)/' \
    -e '/^OP(exp,/,/^OP(/s/OPF_core/OPF_core | OPF_random/' "$rows"
sed -i 's/^DERIV(exp, exp, "result")/DERIV(exp, log, "self")/' "$work/ir/ops/derivatives.def"
for file in pointwise derivatives; do
    ! cmp -s "$work/ir/ops/$file.def" "$root/ir/ops/$file.def" || fail "the edits of $file.def found no row: adapt them"
done
[ "$(diff "$rows" "$root/ir/ops/pointwise.def" | grep -c '^<')" = 3 ] || fail "three edits of pointwise.def were meant"

sed '$ a OP(nobodys_op, "nobodys_op(Tensor self) -> Tensor", "", pointwise(unary, exp), unary)' \
    "$root/ir/ops/pointwise.def" >"$rows.more"
mkdir "$work/more"
cp -R "$root/ir" "$work/more/ir"
mv "$rows.more" "$work/more/ir/ops/pointwise.def"
"$cmake" -DROOT="$work/more" -DOUTPUT="$work/more_ids" -P "$root/ir/op_ids.cmake"
diff "$build/generated/ir/op_ids.def" "$work/more_ids" >"$work/ids" && fail "a new row has no number"
[ "$(grep -c '^[<>]' "$work/ids")" = 1 ] || { cat "$work/ids"; fail "a row at the end of its family renumbers others"; }
awk '/^[^ ].*: #deps/ { object = $1; live = !/STALE/ && object !~ /^(tests|samples)\/|\/(sinter|sn_gen_ops)\.dir\// }
     /^ / && live && /(op_ids|ops\/pointwise)\.def$|include\/sinter\/ops\.h$/ { print object }' "$work/deps" |
    sort -u >"$work/readers"
n=$(wc -l <"$work/readers")
[ "$n" -ge 1 ] && [ "$n" -le 60 ] || { cat "$work/readers"; fail "a new op rebuilds $n objects of the library, not 60"; }
echo "a new op of pointwise.def: $n objects of the library"

untouched() { # FILE COMMAND...: the file is as it was, and not written
    file=$1
    shift
    cp "$build/$file" "$work/out"
    touch -d 2001-01-01 "$work/out"
    "$@"
    cmp "$work/out" "$build/$file" || fail "$file changes with a row's columns"
    [ -z "$(find "$work/out" -newermt 2001-01-02)" ] || fail "$file is written though nothing in it changes"
}
untouched generated/ir/op_ids.def "$cmake" -DROOT="$work" -DOUTPUT="$work/out" -P "$root/ir/op_ids.cmake"
"$cc" -std=gnu17 -I "$work" -I "$root" -I "$root/frontend" -I "$build/include" -I "$build/generated" -c "$root/ir/op.c" \
    -o "$work/op.o"
"$cc" "$@" "$work/op.o" -o "$work/gen_ops" -lm -lpthread
untouched include/sinter/ops.h "$work/gen_ops" header "$work/out"
untouched generated/ops_api.c "$work/gen_ops" source "$work/out"
"$work/gen_ops" documented "$work/documented"
grep -q 'A sentence that nobody wrote' "$work/documented" || fail "the edited doc is not in the documented header"
