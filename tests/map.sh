#!/usr/bin/env bash
# map.sh ROOT: the map of the code base as Markdown: each folder with its README's title, each file with the first
# sentence of the comment that it begins with. `./dev map` prints it; tests/check_map.sh holds it against the tree.
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

echo "# The code base"
for folder in frontend ir passes codegen kernels runtime samples tests; do
  printf '\n## %s\n' "$(sed -n '1s/^# //p' "$folder/README.md")"
  at=
  while read -r file; do
    [ "${file%/*}" = "$at" ] || { at=${file%/*} && printf '\n`%s/`\n\n' "$at"; }
    printf -- '- `%s` %s\n' "${file##*/}" "$(first_sentence "$file")"
  done < <(files_of "$folder")
done
