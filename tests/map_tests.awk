# map_tests.awk FILE...: which tests show each source file, as "FILE<tab>TESTS" lines, by what names what: no guess, and
# no run. The first rule that finds something, of:
#
#   a test's text names a function that the file defines           unit.test_sym, ...
#   a table names it without its prefix, as rules are pasted (meta_, decomp_, deriv_, body_, pass_, command_...):
#     a row of the op table                                        test_ops MODE aten::exp
#     a word of a golden's RUN line (a pass, a command)            golden.passes/cse.sn
#   a file that is shown so names one of its functions or includes it   through dispatch.c: unit.test_dispatch
#
# A header is shown by what shows the functions that it declares.
# Of many tests the three that name the most of it, where a function that few tests name counts more, and how many more.
# Names in comments do not count. For C, CUDA texts and their headers; tests are C programs, tables are .def.
function is_test(file) { return file ~ /^tests\// }
function entry(file,   name) {
  name = file
  sub(/^.*\//, "", name)
  sub(/[.][ch]$/, "", name)
  if (file ~ /^tests\/(unit|cuda)\/test_/) return (file ~ /unit/ ? "unit." : "cuda.") name
  if (file ~ /^tests\/ops\/check_/) { sub(/^check_/, "", name); return "ops." name }
  if (file ~ /^tests\/fuzz\//) return "fuzz"
  return ""
}
# without comments; in_comment goes on over lines
function code_of(line,   at, end) {
  for (;;) {
    if (in_comment) {
      at = index(line, "*/")
      if (!at) return ""
      line = substr(line, at + 2)
      in_comment = 0
    }
    at = index(line, "/*")
    if (!at) return line
    end = index(substr(line, at), "*/")
    in_comment = !end
    if (!end) return substr(line, 1, at - 1)
    line = substr(line, 1, at - 1) " " substr(line, at + end + 1)
  }
}
function define(line,   name) {
  if (line !~ /^[A-Za-z_].*[ *][a-z][A-Za-z0-9_]*\(/ || line ~ /^(typedef|return|else)/) return
  if (line ~ /^static/ && FILENAME !~ /[.](h|cuh)$/) return
  name = line
  sub(/\(.*$/, "", name)
  if (line ~ /^KERNEL /) { name = line; sub(/\([^(]*$/, "", name) }
  sub(/^.*[ *]/, "", name)
  if (name == "") return
  if (line ~ /;$/) { # a declaration
    if (FILENAME ~ /[.]h$/) declares[FILENAME] = declares[FILENAME] " " name
    return
  }
  if (name in home) return
  home[name] = FILENAME
  defines[FILENAME] = defines[FILENAME] " " name
}
FNR == 1 { in_comment = 0; files[++n_files] = FILENAME; row = "" }
FILENAME ~ /[.]sh$/ || FILENAME ~ /[.]sn$/ {
  if (FILENAME ~ /[.]sn$/ && $0 !~ /^# RUN/) next
  if (FILENAME ~ /[.]sh$/) {
    name = FILENAME
    sub(/^.*\//, "golden.tool-", name)
    sub(/[.]sh$/, "", name)
    sub(/sample_texts$/, "samples", name)
  } else
    name = "golden" substr(FILENAME, length("tests/golden") + 1)
  sub(/\//, ".", name)
  n = split($0, word, /[^A-Za-z0-9_]+/)
  for (i = 1; i <= n; i++) {
    if (!((name, word[i]) in run)) goldens[word[i]] = goldens[word[i]] " " name
    run[name, word[i]] = 1
    key = tolower(word[i]) == "sinter" ? "sinter " word[i + 1] : ""
    if (key != "" && !((name, key) in run)) goldens[key] = goldens[key] " " name
    run[name, key] = 1
  }
  next
}
{
  line = code_of($0)
  if (FILENAME ~ /^ir\/ops.*[.]def$/) {
    if (match(line, /^(OP|ALIAS)\([^,]*, *"[^("]*/)) { row = substr(line, RSTART, RLENGTH); sub(/^.*"/, "", row) }
    n = split(line, word, /[^A-Za-z0-9_]+/)
    for (i = 1; row != "" && i <= n; i++)
      if (!((row, word[i]) in in_row)) { in_row[row, word[i]] = 1; rows[word[i]] = rows[word[i]] " aten::" row }
    next
  }
  if (!is_test(FILENAME)) define(line)
  if (line ~ /^#include "/ && !is_test(FILENAME)) {
    split(line, word, "\"")
    callers[word[2]] = callers[word[2]] " " FILENAME
  }
  n = split(line, word, /[^A-Za-z0-9_]+/)
  for (i = 1; i <= n; i++)
    if (length(word[i]) > 3 && !((FILENAME, word[i]) in seen)) {
      seen[FILENAME, word[i]] = 1
      words[FILENAME] = words[FILENAME] " " word[i]
    }
}
# the best three of a set of scores, and how many more
function best(score,   k, i, top, name, out, n, left) {
  for (name in score) n++
  for (k = 0; k < 3 && k < n; k++) {
    top = ""
    for (name in score)
      if (top == "" || score[name] > score[top] || (score[name] == score[top] && name < top)) top = name
    out = out (k ? ", " : "") top
    delete score[top]
  }
  left = n - k
  return out (left > 0 ? " and " left " more" : "")
}
# tests that name a function of the file
function direct(file,   n, word, i, m, by, j, score) {
  n = split(defines[file] declares[file], word, " ")
  for (i = 1; i <= n; i++) {
    m = split(testers[word[i]], by, " ")
    for (j = 1; j <= m; j++) score[by[j]] += 1 / m
  }
  return best(score)
}
function pasted(file,   n, word, i, m, by, j, score, name) {
  n = split(defines[file], word, " ")
  for (i = 1; i <= n; i++) {
    name = word[i]
    if (!sub(/^(meta|body|decomp|deriv|cpu|cuda|lower|pass|command)_/, "", name) || length(name) < 2) continue
    if (word[i] ~ /^command_/) name = "sinter " name
    m = split(word[i] ~ /^(pass|command)_/ ? goldens[name] : rows[name], by, " ")
    for (j = 1; j <= m; j++) score[by[j]] += 1 / m
  }
  name = best(score)
  return name ~ /^aten/ ? "test_ops " (file ~ /cuda/ ? "cuda" : "MODE") " " name : name
}
END {
  for (f = 1; f <= n_files; f++) {
    file = files[f]
    n = split(words[file], word, " ")
    for (i = 1; i <= n; i++) {
      to = word[i]
      if (!(to in home) || home[to] == file) continue
      if (is_test(file)) { if ((name = entry(file)) != "") testers[to] = testers[to] " " name }
      else if (!((file, home[to]) in calls)) {
        calls[file, home[to]] = 1
        callers[home[to]] = callers[home[to]] " " file
      }
    }
  }
  for (f = 1; f <= n_files; f++) {
    file = files[f]
    if (is_test(file)) continue
    shown[file] = direct(file)
    if (shown[file] == "") shown[file] = pasted(file)
  }
  for (f = 1; f <= n_files; f++) if (shown[files[f]] != "") { near[files[f]] = files[f] }
  for (level = 1; level <= 6; level++) {
    n_new = 0
    for (f = 1; f <= n_files; f++) {
      file = files[f]
      if (is_test(file) || near[file] != "") continue
      n = split(callers[file], word, " ")
      for (i = 1; i <= n; i++) if (near[word[i]] != "") { fresh[file] = near[word[i]]; n_new++; break }
    }
    for (file in fresh) { near[file] = fresh[file]; delete fresh[file] }
    if (!n_new) break
  }
  for (f = 1; f <= n_files; f++) {
    file = files[f]
    if (is_test(file) || file ~ /[.](def|sn|sh)$/) continue
    if (shown[file] != "") print file "\tby " shown[file]
    else if (near[file] != "") {
      name = near[file]
      sub(/^.*\//, "", name)
      print file "\tthrough " name ": " shown[near[file]]
    }
  }
}
