#!/usr/bin/env bash
# check_packages.sh FOLDER ROOT CC: the Debian packages in FOLDER (cpack -G DEB), as a user gets them.
#  1. lintian finds no error, and each override of one has its reason in the line above.
#  2. They install into a bare root: a folder that has the files of what they depend on, as this machine's dpkg knows
#     them, and nothing else, so that a dependency that is not declared is missing. The tool runs hello and digits there,
#     and a program runs that was linked with the headers and libraries of libsinter-dev; all generate code.
#  3. Removed, they leave nothing.
# 77: this process may make no root of its own.
set -euo pipefail
folder=$1 source=$2 cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
complain() { echo "check_packages: $1" && exit 1; }
packages=("$folder"/libsinter0_*.deb "$folder"/libsinter-dev_*.deb "$folder"/sinter_*.deb)
[ ${#packages[@]} = 3 ] && [ "$(ls "$folder"/*.deb | wc -l)" = 3 ] || complain "there are other packages than three"

lintian --fail-on error --tag-display-limit 0 "${packages[@]}" || complain "lintian finds errors"
for package in "${packages[@]}"; do
  rm -rf "$work/files" && mkdir "$work/files" && dpkg-deb -x "$package" "$work/files"
  find "$work/files" -path '*/lintian/overrides/*' -type f -exec cat {} + |
    awk -v package="$package" '/^#/ { reason = 1; next } NF && !reason { print package ": no reason for: " $0; bad = 1 }
                               { reason = 0 } END { exit bad }'
done

# in_root COMMAND...: with the root as its root, and processes of its own.
user=()
[ "$(id -u)" = 0 ] || user=(--map-root-user)
mkdir -p "$root"/{proc,tmp,usr/{bin,sbin,lib,lib64},var/lib/dpkg/{info,updates,triggers}}
for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done
in_root() {
  unshare "${user[@]}" --mount --pid --fork sh -c 'mount -t proc proc "$1/proc" && exec chroot "$@"' sh "$root" "$@"
}
as_root() { unshare "${user[@]}" --mount "$@"; }
as_root true 2>/dev/null || { echo "no root of one's own can be made here" && exit 77; }

# What they depend on, and so on: the first of alternatives that is installed here. A shell and ldconfig are on every
# Debian system, and may be called without a word.
needed=(dash libc-bin) pending=()
declare -A seen=([libsinter0]=1 [libsinter-dev]=1 [sinter]=1)
alternatives() { # lines: names separated by |
  tr ',' '\n' | sed -E 's/\([^)]*\)//g; s/:[a-z0-9]+//g; s/[[:space:]]//g' | grep . || true
}
for package in "${packages[@]}"; do
  mapfile -t -O ${#pending[@]} pending < <(dpkg-deb -f "$package" Depends | alternatives)
done
while [ ${#pending[@]} -gt 0 ]; do
  line=${pending[0]} pending=("${pending[@]:1}") found=
  for name in ${line//|/ }; do
    [ -z "${seen[$name]:-}" ] || found=$name
    [ -n "$found" ] || ! dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed || found=$name
    [ -z "$found" ] || break
  done
  [ -n "$found" ] || complain "none of $line is installed here"
  [ -z "${seen[$found]:-}" ] || continue
  seen[$found]=1 needed+=("$found")
  mapfile -t -O ${#pending[@]} pending < <(dpkg-query -W -f='${Pre-Depends}, ${Depends}' "$found" | alternatives)
done
echo "the root has: ${needed[*]}"
for name in "${needed[@]}"; do
  dpkg-query -s "$name" >>"$root/var/lib/dpkg/status"
  echo >>"$root/var/lib/dpkg/status"
  dpkg -L "$name" | while read -r file; do [ ! -d "$file" ] && [ -e "$file" ] && echo ".$file"; done >"$work/list" || true
  tar -C / -c --no-recursion -T "$work/list" | tar -C "$root" -x --keep-directory-symlink --no-same-owner
  dpkg -L "$name" >"$root/var/lib/dpkg/info/$(dpkg-query -W -f='${binary:Package}' "$name").list"
done
foreign=$(find "$root" -name 'libLLVM*' -o -path '*/bin/*' \( -name 'clang*' -o -name '*gcc*' -o -name 'python*' \)) || true
[ -z "$foreign" ] || complain "the root is not bare: $foreign"
find "$root" ! -type d | sort >"$work/before"

as_root dpkg --root="$root" --install "${packages[@]}" >"$work/log" 2>&1 || { cat "$work/log"; complain "dpkg does not install them"; }
in_root /usr/bin/sinter doctor >"$work/said"
grep -q '^llvm: LLVM' "$work/said" || { cat "$work/said"; complain "the tool finds no LLVM"; }
in_root /usr/bin/sinter run hello >"$work/said" || complain "the tool does not run hello"
grep -q '^fn: 2 calls, 1 graph, .* compiled share 1.0000$' "$work/said" || complain "hello says something else"
in_root /usr/bin/sinter run digits --steps 20 --json >"$work/said" || complain "the tool does not run digits"
grep '"compiled_share": 1.0000, "digest": "0410ee3b108cdde7"' "$work/said" ||
  complain "digits trains to other parameters, or without generated code"

config=$(find "$root/usr/lib" -name sinter.pc)
# shellcheck disable=SC2046  # several words
"$cc" -fexceptions -o "$root/tmp/hello" -I "$source/samples" "$source/samples/hello.c" \
  $(PKG_CONFIG_PATH=$(dirname "$config") pkg-config --cflags --libs sinter) -lm
in_root /tmp/hello >"$work/said" || complain "a program of one's own does not run"
grep -q '^fn: 2 calls, 1 graph, .* compiled share 1.0000$' "$work/said" || complain "it ran without generated code"
rm "$root/tmp/hello"

as_root dpkg --root="$root" --purge sinter libsinter-dev libsinter0 >"$work/log" 2>&1 ||
  { cat "$work/log"; complain "dpkg does not remove them"; }
find "$root" ! -type d | sort >"$work/after"
left=$(diff "$work/before" "$work/after" | grep '^[<>]' | grep -v -e /var/lib/dpkg/ -e /etc/ld.so.cache) || true
[ -z "$left" ] || complain "files are left, or gone: $left"
echo "three packages: good"
