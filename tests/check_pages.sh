#!/usr/bin/env bash
# check_pages.sh ROOT: a README is one page: at most 500 words in a folder, 800 at the root; and what a page links to
# exists. Prints what is not so.
set -euo pipefail
cd "$1"
found=0
say() { echo "$*" && found=1; }

mapfile -t pages < <(find . -name '*.md' -not -path './build*' -not -path './.*' | LC_ALL=C sort)
[ ${#pages[@]} -gt 10 ] || { echo "no pages below $1" && exit 2; }
for page in "${pages[@]}"; do
  most=500
  case $page in
    ./README.md) most=800 ;;
    */README.md) ;;
    *) most= ;;
  esac
  words=$(wc -w <"$page")
  [ -z "$most" ] || [ "$words" -le $most ] || say "${page#./} has $words words, more than $most: what is looked up belongs to" \
    "heads of files, sinter help, or a page beside it"
  while read -r link; do
    [ -e "$(dirname "$page")/$link" ] || say "${page#./} links to $link, which does not exist"
  done < <(grep -oE '\]\([^)#:]+\)' "$page" | sed 's/^](//; s/)$//' || true)
done
exit $found
