#!/bin/sh
# check_breaks.sh ROOT [HEADERS]: reasons are rows of runtime/core/breaks.def. Prints
#   a row whose code does not come behind the one before it, or whose kind none of the head's is
#   a row without a paragraph, or one that speaks of a public name that there is not
#   a row that no code names (a name of no row does not compile)
#   a literal that is made a reason: what to do then stands in the last line
# HEADERS: the folder of the generated headers.
cd "$1" || exit 2
rows=runtime/core/breaks.def headers=${2:-build/include}
names=$(sed -n 's/^BREAK([0-9]*, [a-z_]*, \([a-z_0-9]*\),.*/\1/p' $rows)
[ -n "$names" ] || { echo "no row found in $rows"; exit 2; }
found=$(mktemp) || exit 2
trap 'rm -f "$found"' EXIT

awk -F'[(,] *' '/^BREAK\(/ {
    if ($2 <= last) print $4 ": code " $2 " behind " last; last = $2
    if ($2 < 100 || $2 > 599 || $3 != kind[int($2 / 100)]) print $4 ": code " $2 " is not of kind " $3
}
BEGIN { kind[1] = "graph_break"; kind[2] = "eager"; kind[3] = "backward"; kind[4] = "replay"; kind[5] = "flow" }' $rows >>"$found"

# From one row to the next: at least two strings, text and paragraph, which ends its last line.
awk '/^BREAK\(/ { head = $0; text = "" }
head { text = text $0 }
head && /\)$/ { if (text !~ /^BREAK\([^"]*"([^"\\]|\\.)*", *("([^"\\]|\\.)*\\n" *)+\)$/) print head ": no paragraph"; head = "" }' $rows >>"$found"

for word in $(grep -oE '\b(sn_[a-z0-9_]+|SN_[A-Z0-9_]+)\b' $rows | sort -u); do
    grep -qrw -- "$word" frontend/sinter "$headers" || echo "$rows: there is no $word" >>"$found"
done

code=$(grep -rhoE 'BREAK_((TEXT|REASON)\([a-z_0-9]+\)|[a-z_0-9]+)' runtime frontend --include='*.c' | sed 's/^BREAK_//; s/^\(TEXT\|REASON\)(//; s/)$//' | sort -u)
for name in $names; do
    echo "$code" | grep -qx "$name" || echo "$name: no code names it" >>"$found"
done

# A reason has a type of its own, which the compiler holds: only these make one of text.
grep -rnE '\<reason_(from|called)\([^()]*"' runtime frontend --include='*.c' --include='*.h' >>"$found"

[ -s "$found" ] || exit 0
cat "$found"
echo "a reason is a row of $rows: BREAK_REASON(name) names it, and its paragraph says what a user can do"
exit 1
