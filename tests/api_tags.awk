# api_tags.awk HEADER...: "function class" for every function that a public header declares, by the [class] of its doc. A tag
# after a sentence, or alone, speaks for the functions below up to the next comment; one within the first words of a
# comment ("Scopes [event]", "Calls [op]: ...") for all below that have none of their own, up to the next such.
function note(text, before) {
    own = ""
    if (!match(text, /\[(op|event|meta|flush|neutral|refused)[^]]*\]/)) return
    before = substr(text, 1, RSTART - 1)
    tag = substr(text, RSTART + 1, RLENGTH - 2)
    sub(/ .*/, "", tag)
    sub(/[ \/*]+$/, "", before)
    if (before == "" || before ~ /\.$/) own = tag
    else group = tag
}
FNR == 1 { group = own = ""; inside = 0 }
inside { text = text " " $0 }
!inside && /^\/\*/ { text = $0; inside = 1 }
inside { if (/\*\//) { inside = 0; note(text) } next }
/^[a-z].*[ *]sn_[A-Za-z0-9_]+\(/ && !/^(static|typedef|enum)/ {
    if (match($0, /\/\*.*\*\//)) note(substr($0, RSTART, RLENGTH))
    match($0, /sn_[A-Za-z0-9_]+\(/)
    print substr($0, RSTART, RLENGTH - 1), own != "" ? own : group != "" ? group : "none"
}
