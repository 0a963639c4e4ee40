#!/bin/sh
# check_templates.sh ROOT: a template is named only in its row, its lowering, its runs on the CPU and on CUDA, its core (kernels) and
# tests; all others ask the row, so that the next one is added without touching them. Prints each line that does not.
cd "$1" || exit 2
# FILE: why it may.
exceptions='ir/template.h: the example of the text
runtime/cpu/cpu_matmul.c: the eager products, which call the same core
runtime/cpu/conv_sums.c: convolutions: their sums are chains of the same core
runtime/cpu/conv_point.c: those whose kernel has one position
runtime/cpu/conv_product.c: those that read their patches from lines
runtime/cpu/attention_heads.h: attention: its products are chains of the same core
runtime/cpu/attention_heads.c: the same
runtime/cpu/attention_backward.c: the same
frontend/tool/bench_peers.def: the rows gemm/*
frontend/tool/notes.def: the kinds of kernels in JSON'
names=$(sed -n 's/^TEMPLATE(\([a-z0-9_]*\),.*/\1/p' ir/templates.def)
[ -n "$names" ] || { echo "no template found in ir/templates.def"; exit 2; }
found=0
for name in $names; do
    for file in $(grep -rlwiE "[a-z_]*_?${name}(_[a-z_]*|[A-Z][A-Za-z]*)?" ir passes codegen runtime frontend \
        --include='*.c' --include='*.h' --include='*.def'); do
        case $file in
        ir/templates.def | passes/template_"$name".c | runtime/cpu/cpu_"$name".[ch] | runtime/cuda/cuda_"$name".c | runtime/cuda/cuda_"$name"_*.[ch]) continue ;;
        esac
        echo "$exceptions" | grep -q "^$file:" && continue
        grep -niE "$name" "$file" | sed "s|^|$file:|"
        found=1
    done
done
exit $found
