#!/usr/bin/env bash
# docs.sh HEADERS... FOLDER: the API reference as Markdown: a page per public header, from its comments; index.md, which
# names every function; pytorch.md, a table of PyTorch's ops and the calls that are them, from the op table's header.
set -euo pipefail
folder=${!#}
headers=("${@:1:$#-1}")
mkdir -p "$folder"

# A section per group of declarations under one comment: their names, the declarations, what the comment says.
page() {
  awk '
    function flush(    names, rest, n) {
      if (code != "") {
        rest = code
        while (match(rest, /sn_[a-z0-9_]+\(/)) {
          n = substr(rest, RSTART, RLENGTH - 1)
          if (index(names, "`" n "`") == 0) names = names (names == "" ? "" : ", ") "`" n "`"
          rest = substr(rest, RSTART + RLENGTH)
        }
        if (names != "") print "### " names "\n"
        print "```c\n" code "```\n"
      }
      if (text != "") print text "\n"
      code = text = ""
    }
    /^#|^SN_BEGIN|^SN_END/ { next }
    in_comment || /^\/\*/ {
      if (!in_comment && code != "") flush()
      line = $0
      first = sub(/^\/\* ?/, "", line)
      in_comment = !sub(/ ?\*\/ *$/, "", line)
      if (!first) sub(/^   /, "", line) # examples keep four spaces more: code
      text = text == "" ? line : text "\n" line
      if (!in_comment && !introduced) {
        sub(/^[a-z]+\.h: */, "", text)
        print "# " title "\n\n" text "\n"
        text = ""
        introduced = 1
      }
      next
    }
    NF == 0 && depth == 0 { flush(); next }
    { code = code $0 "\n"; depth += gsub(/{/, "{") - gsub(/}/, "}") }
    END { flush() }' title="$2" "$1"
}

for header in "${headers[@]}"; do
  name=$(basename "$header" .h)
  page "$header" "sinter/$name.h" >"$folder/$name.md"
done

{
  printf '# Sinter: the API\n\n'
  for header in "${headers[@]}"; do
    name=$(basename "$header" .h)
    printf '## [sinter/%s.h](%s.md)\n\n' "$name" "$name"
    sed -n 's/^### //p' "$folder/$name.md" | paste -sd, | sed 's/,/, /g; s/,  /, /g'
    echo
  done
} >"$folder/index.md"

{
  printf '# PyTorch calls and their Sinter calls\n\n'
  printf 'Of each op of the table the call of PyTorch that is the same op, and the functions of [sinter/ops.h](ops.md).\n\n'
  printf '| PyTorch | Sinter | schema |\n|---|---|---|\n'
  for header in "${headers[@]}"; do
    awk '
      match($0, /aten::[A-Za-z0-9_.]+\(.*\*\/$/) {
        schema = substr($0, RSTART, RLENGTH - 3)
        name = substr(schema, 7, index(schema, "(") - 7)
        functions = ""
        next
      }
      name != "" && match($0, /sn_[a-z0-9_]+\(/) {
        functions = functions (functions == "" ? "" : ", ") "`" substr($0, RSTART, RLENGTH - 1) "`"
        next
      }
      NF == 0 && name != "" {
        gsub(/\|/, "\\|", schema)
        printf "| `torch.ops.aten.%s` | %s | `%s` |\n", name, functions, schema
        name = ""
      }' "$header"
  done | LC_ALL=C sort
} >"$folder/pytorch.md"
