#!/bin/sh
# check_orders.sh ROOT: the orders of additions are numbered rules of kernels/orders.md. Each is named by code that follows
# it, and each that is named exists. Prints what is not so.
cd "$1" || exit 2
rules=$(sed -n 's/^- \*\*\(B2\.[0-9]*\) .*/\1/p' kernels/orders.md)
[ -n "$rules" ] || { echo "no rule found in kernels/orders.md"; exit 2; }
named=$(grep -rhoE '\[B2\.[0-9][^]]*\]' ir passes codegen runtime kernels tests --include='*.c' --include='*.h' \
    --include='*.def' | grep -oE 'B2\.[0-9]+' | sort -u)
found=0
for rule in $rules; do
    echo "$named" | grep -qx "$rule" || { echo "$rule: no code names it"; found=1; }
done
for rule in $named; do
    echo "$rules" | grep -qx "$rule" || { echo "$rule: kernels/orders.md has no such rule"; found=1; }
done
exit $found
