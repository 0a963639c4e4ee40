#!/bin/bash
# cache.sh SINTER GRAPH: what `sinter cache` says of a folder: none yet, one entry, a damaged one, after clear, none
# wanted.
set -euo pipefail
sinter=$1 graph=$2
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
export SINTER_CACHE_DIR=$work/code
expect() { # CODE TEXT COMMAND...
    local code=0 said
    said=$("${@:3}" 2>&1) || code=$?
    [ $code -eq "$1" ] || { echo "exit code $code of ${*:3}: $said"; exit 1; }
    grep -q -- "$2" <<<"$said" || { echo "no '$2' in: $said"; exit 1; }
}
expect 0 '"entries": 0, "bytes": 0, ' "$sinter" cache stats --json
expect 0 '1 generated, 0 had code already$' "$sinter" explain "$graph"
expect 0 '0 generated, 0 had code already, 1 taken from the disk$' env SINTER_LLVM_MODULE=/nowhere "$sinter" explain "$graph"
expect 0 '\.code  [0-9]* bytes  .*  cpu v[234], 1 nest$' "$sinter" cache list
expect 0 '"state": "whole", "of": "cpu v' "$sinter" cache list --json
expect 0 '^whole: 1$' "$sinter" cache verify
entry=$(ls "$SINTER_CACHE_DIR"/*.code)
cp "$entry" "$SINTER_CACHE_DIR/0123456789abcdef.code"
expect 1 'its name is not that of what is in it' "$sinter" cache verify
truncate -s -1 "$entry"
expect 1 '"whole": 0, "stale": 0, "damaged": 2}' "$sinter" cache verify --json
expect 0 'damaged: .* its length is not what it says' "$sinter" cache list
expect 0 '^2 entries removed$' "$sinter" cache clear
[ -z "$(ls "$SINTER_CACHE_DIR")" ] || { echo "clear left files"; exit 1; }
expect 2 "unexpected 'all'" "$sinter" cache all
expect 2 "one of list, stats, verify and clear is missing after 'cache'" "$sinter" cache
expect 3 'the setting cache_dir is off' env SINTER_CACHE_DIR=off "$sinter" cache list
chmod 777 "$SINTER_CACHE_DIR"
expect 3 'others may write to' "$sinter" cache stats
