# acceptance.awk: the table of acceptance lines (acceptance.def) beside the tests of the tree, and as a page.
#   awk -f acceptance.awk -v want=page|entries|check [-v ids="1.01 2"] [-v results=FILE] TESTS TABLE
# TESTS: lines `entry` and `entry function`, all that there are. want: `page` is acceptance.md, `entries` the ctest
# entries of the lines `ids` (groups or lines; none: all), `check` prints what is wrong and exits 1 where anything is.
# results: the output of ctest -V with CK_VERBOSITY=verbose: a line that works must have all of its tests in it, passed.
BEGIN { split("19 22 18 5 25 9 16 8", lines_of) }
function wrong(text) { print "acceptance.def: " text; problems++ }
function finish_line() {
    if (id != "" && !(id in lacks) && shown[id] == 0) wrong(id ": it lacks nothing and no test shows it")
    if (id != "" && shown[id] && !(id in runs)) wrong(id ": it does not say how its tests run: `runs eager compiled`")
}
function is_asked(line,    i, n, some) {
    n = split(ids, some, " ")
    for (i = 1; i <= n; i++) if (line == some[i] || index(line, some[i] ".") == 1) return 1
    return n == 0
}
function add_test(entry, name) {
    tests[id] = tests[id] (shown[id]++ ? ", " : "") (last[id] == entry ? "" : entry " ") name
    sub(/ $/, "", tests[id])
    last[id] = entry
    if (name == "") return
    named[entry, name] = 1
    needs[id] = needs[id] " " entry "/" name
}
function add_tests(entry, pattern,    i, n, stem, found, names) {
    stem = pattern
    sub(/[*]$/, "", stem)
    n = split(functions[entry], names, " ")
    for (i = 1; i <= n; i++) {
        if (stem == pattern ? names[i] != pattern : index(names[i], stem) != 1) continue
        found = 1
        if (stem == "") named[entry, names[i]] = 1
        else add_test(entry, names[i])
    }
    if (found && stem == "") add_test(entry, "")
    if (!found) wrong(id ": " entry " has no test " pattern)
}
FILENAME == ARGV[1] { exists[$1] = 1; if (NF > 1) functions[$1] = functions[$1] " " $2; next }
/^#/ || NF == 0 { next }
/^[0-9]/ {
    finish_line()
    id = $1
    order[++n_ids] = id
    if (seen[id]++) wrong(id " stands twice")
    title[id] = substr($0, length(id) + 2)
    next
}
$1 == "shows" {
    if (!($2 in exists)) wrong(id ": there is no ctest entry " $2)
    entries[id] = entries[id] " " $2
    if ($2 ~ /^cuda[.]/) gpu[id] = 1; else cpu[id] = 1
    if (NF == 2) add_test($2, "")
    for (i = 3; i <= NF; i++) add_tests($2, $i)
    next
}
$1 == "runs" {
    for (i = 2; i <= NF; i++) if ($i != "eager" && $i != "compiled") wrong(id ": runs " $i "?")
    runs[id] = $2 (NF > 2 ? ", " $3 : "")
    next
}
$1 == "lacks" { lacks[id] = $0; sub(/^ *lacks */, "", lacks[id]); next }
{ wrong(FNR ": " $0) }
function check_ids(    group, line, each, n, some) {
    for (group = 1; group <= 8; group++)
        for (line = 1; line <= lines_of[group]; line++)
            if (!(sprintf("%d.%02d", group, line) in seen)) wrong(sprintf("%d.%02d is not there", group, line))
    n = split("01 04 09 10 11 12 13 17 18 19 21 22", some, " ") # of group 9 those that were taken up
    for (each = 1; each <= n; each++) if (!(("9." some[each]) in seen)) wrong("9." some[each] " is not there")
    for (each = 2; each <= n_ids; each++)
        if (order[each] <= order[each - 1]) wrong(order[each] " stands behind " order[each - 1])
    if (n_ids != 122 + n) wrong(n_ids " lines, not " 122 + n)
}
# A test that carries a line's number, and no block has it.
function check_named(    entry, i, n, names, part) {
    for (entry in functions) {
        n = split(functions[entry], names, " ")
        for (i = 1; i <= n; i++) {
            if (names[i] !~ /^a[1-9]_[0-9][0-9]_/ || (entry, names[i]) in named) continue
            split(names[i], part, "_")
            wrong(substr(part[1], 2) "." part[2] ": add `shows " entry " " names[i] "`")
        }
    }
}
function read_results(    line, number, entry, part, name, tag) {
    while ((getline line < results) > 0) {
        if (line ~ /^ *Start +[0-9]+: /) {
            split(line, part, /[ :]+/)
            entry_of[part[3]] = part[4]
        } else if (line ~ /Test +#[0-9]+: /) {
            sub(/.*Test +#[0-9]+: /, "", line)
            split(line, part, " ")
            outcome[part[1]] = line ~ / Passed / ? "passed" : "failed"
        } else if (line ~ /^[0-9]+: .*:[PFES]:[^:]*:[A-Za-z0-9_]+:[0-9]+: /) {
            number = line
            sub(/:.*/, "", number)
            match(line, /:[PFES]:[^:]*:[A-Za-z0-9_]+:[0-9]+: /)
            split(substr(line, RSTART + 1, RLENGTH), part, ":")
            name = entry_of[number] "/" part[3]
            if (outcome[name] != "failed") outcome[name] = part[1] == "P" ? "passed" : "failed"
        }
    }
}
function check_results(    each, line, i, n, some) {
    read_results()
    for (each = 1; each <= n_ids; each++) {
        line = order[each]
        if (line in lacks || !is_asked(line)) continue
        n = split(entries[line] needs[line], some, " ")
        for (i = 1; i <= n; i++)
            if (outcome[some[i]] != "passed")
                wrong(line ": it lacks nothing, but " some[i] " has " (some[i] in outcome ? "failed" : "not run"))
    }
}
function print_page(    each, line, where) {
    print "# Acceptance lines\n"
    print "Made by `./dev acceptance` from [acceptance.def](acceptance.def), which says what each column means; `works`"
    print "stands where all tests of a line pass. GPU: tests run there as well (here on an emulated one).\n"
    print "| line | what | state | runs | tests |\n|---|---|---|---|---|"
    for (each = 1; each <= n_ids; each++) {
        line = order[each]
        where = (line in cpu ? "CPU" : "") (line in cpu && line in gpu ? ", " : "") (line in gpu ? "GPU" : "")
        printf "| %s | %s | %s | %s | %s |\n", line, title[line], line in lacks ? "lacks " lacks[line] : "works",
               runs[line] (where == "" ? "" : "; " where), tests[line]
    }
}
END {
    finish_line()
    check_ids()
    check_named()
    if (results != "") check_results()
    if (want == "page" && !problems) print_page()
    if (want == "entries")
        for (each = 1; each <= n_ids; each++)
            if (is_asked(order[each])) {
                n = split(entries[order[each]], some, " ")
                for (i = 1; i <= n; i++) if (!printed[some[i]]++) print some[i]
            }
    for (each = 1; each <= n_ids; each++) working += !(order[each] in lacks)
    if (want == "check" && !problems) print n_ids " lines, " working " work, 0 problems"
    exit problems != 0
}
