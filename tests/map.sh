#!/usr/bin/env bash
# map.sh ROOT: the map of the code base as Markdown: each folder with its README's title, each file with the first
# sentence of the comment that it begins with, and the tests that show it (map_tests.awk has the rule). `./dev map` prints
# it; tests/check_map.sh holds it against the tree.
set -euo pipefail
cd "$1"

# The first sentence of a file's first comment, without its name.
first_sentence() {
  awk -v name="${1##*/}" '
    /^#!/ || (text == "" && NF == 0) { next }
    !/^(\/\*|\/\/|#|;|"""| \*|   )/ { exit }
    {
      line = $0
      sub(/^(\/\*+|\/\/|#+|;+|"""| \*)? */, "", line)
      ended = sub(/ *(\*\/|""").*$/, "", line)
      if (line == "" && text != "") exit
      text = text == "" ? line : text " " line
      sub("^" name ":? *", "", text)
      if (ended || text ~ /\.( |$)/) exit
    }
    END {
      if (match(text, /\.( |$)/)) text = substr(text, 1, RSTART - 1)
      sub(/:$/, "", text)
      print text
    }' "$1"
}

files_of() {
  find -H "$1" -type f \( -name '*.c' -o -name '*.h' -o -name '*.def' -o -name '*.cpp' -o -name '*.sh' -o -name '*.py' \
    -o -name '*.awk' -o -name '*.cu' \) -not -path 'tests/abi/*' | LC_ALL=C sort
}

# Which tests show what: of files in C and CUDA C.
mapfile -t read_files < <(find frontend ir passes codegen kernels runtime tests/unit tests/cuda tests/ops tests/fuzz \
  tests/golden tests/tool \( -name '*.[ch]' -o -name '*.cuh' -o -name '*.def' -o -name '*.sn' -o -name '*.sh' \) |
  LC_ALL=C sort)
declare -A shown_by
while IFS=$'\t' read -r file tests; do shown_by[$file]=$tests; done \
  < <(LC_ALL=C awk -f tests/map_tests.awk "${read_files[@]}")

echo "# The code base"
for folder in frontend ir passes codegen kernels runtime samples tests; do
  printf '\n## %s\n' "$(sed -n '1s/^# //p' "$folder/README.md")"
  at=
  while read -r file; do
    [ "${file%/*}" = "$at" ] || { at=${file%/*} && printf '\n`%s/`\n\n' "$at"; }
    printf -- '- `%s` %s%s\n' "${file##*/}" "$(first_sentence "$file")" "${shown_by[$file]:+ (shown ${shown_by[$file]})}"
  done < <(files_of "$folder")
done
