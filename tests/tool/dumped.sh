#!/bin/bash
# dumped.sh SINTER SAMPLES FUZZ PROGRAMS [SAMPLE...]: the graphs that sn_dump shows of samples (all that are named, or
# all) and of so many random programs are texts that the tool runs: `sinter verify`, also with --grad, ends with 0 for each: the
# same bits in all ways and no op off f64 by more than its row's bound. KEEP=FOLDER: what does not is copied there.
set -uo pipefail
sinter=$1 samples=$2 fuzz=$3 programs=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0 verified=0 known=0 apart=0
# Graphs that are not counted: a place computed from values may be none that random values have. With --grad: a graph
# that writes in place what its gradients read has none, and says so; nor has scatter.reduce 'multiply' in src, as in
# PyTorch.
unfit='aten::index_select: index [0-9-]+ is out of range for [0-9]+ elements'
unfit+='|sn_gradients: .* it saved at version .*, but writes in place took it to version '
unfit+="|sn_gradients: the derivative of scatter.reduce 'multiply' in src"
# True findings, which are counted: 1 - eps is rounded before logit's quotient, as in PyTorch; rows of a sparse matrix
# ascend, which no row of the op table says.
# round.decimals computes 10^decimals, the product and the quotient in the dtype, as PyTorch does: at ties and in halves
# that is another decimal.
findings='^first op beyond its bound: aten::(logit|round.decimals) |sparse::row_starts: rows of entries do not ascend'

# Each graph of a dump into a file of its own.
split() { awk -v stem="$2" '/^graph /{n++} n && /^[g }]/{print > (stem "." n ".sn")}' "$1"; }

# GRAPH SAMPLE OPTION...: what a sample registers, its graphs have.
verify() {
    local code graph=$1 sample=$2
    shift 2
    "$sinter" verify "$graph" ${sample:+"--library=$sample"} "$@" >"$work/said" 2>&1
    code=$?
    [ $code = 1 ] && grep -qE "$unfit" "$work/said" && apart=$((apart + 1)) && return
    verified=$((verified + 1))
    [ $code = 0 ] && return
    [ $code = 1 ] && grep -qE "$findings" "$work/said" && known=$((known + 1)) && return
    echo "verify $(basename "$graph") $*: exit code $code: $(tail -n 12 "$work/said")"
    [ -z "${KEEP:-}" ] || cp "$graph" "$KEEP"
    failed=1
}

mkdir "$work/dumps" "$work/programs"
[ $# -gt 0 ] || set -- $(cd "$samples" && ls)
for name in "$@"; do
    "$sinter" dump "$name" >"$work/dump" 2>"$work/err"
    split "$work/dump" "$work/dumps/$name"
done
"$fuzz" --graphs "$programs" --seed "${SEED:-1}" --dump "$work/programs" || failed=1
for text in "$work"/programs/*.txt; do split "$text" "$work/dumps/program-$(basename "$text" .txt)"; done
for graph in "$work"/dumps/*.sn; do
    name=$(basename "$graph")
    case $name in program-*) sample= ;; *) sample=${name%%.*} ;; esac
    verify "$graph" "$sample"
    verify "$graph" "$sample" --grad
done
[ $verified -gt $((2 * programs)) ] || { echo "only $verified graphs were verified" && failed=1; }
[ $((apart * 5)) -lt $verified ] || { echo "$apart graphs beside $verified were not run" && failed=1; }
share=20
[ $verified -ge 500 ] || share=8 # of few programs as many may be known findings by chance
[ $((known * share)) -lt $verified ] || { echo "$known of $verified graphs are known findings" && failed=1; }
echo "$verified graphs verified, $known known findings, $apart not run"
exit $failed
