# api_entries.awk FILE...: "NAME", or "NAME of OTHER" where they differ, for every API_ENTER of C files in the house format:
# the public function in whose body it stands, and its argument.
/^[A-Za-z].*[ *]sn_[A-Za-z0-9_]+\(/ && !/^typedef|;$/ {
    match($0, /[ *]sn_[A-Za-z0-9_]+\(/)
    name = substr($0, RSTART + 1, RLENGTH - 2)
}
match($0, /API_ENTER\(sn_[A-Za-z0-9_]+\)/) {
    argument = substr($0, RSTART + 10, RLENGTH - 11)
    print argument (argument == name ? "" : " of " (name == "" ? FILENAME : name))
}
/^}/ { name = "" }
