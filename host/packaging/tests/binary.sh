#!/usr/bin/env bash
# The static program alone, and the tarball with what comes with it.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. host/packaging/check.sh
. host/packaging/tools.sh
need curl file groff python3 readelf unshare

tarball=$OUT/toolyard-$VERSION-x86_64-linux.tar.gz
folder=$WORK/toolyard-$VERSION-x86_64-linux
program=$folder/bin/toolyard
tar -xzf "$tarball" -C "$WORK"
for package in zsh fish elvish mandoc; do (debian_tool "$package"); done

is_static() {
  file "$program" | grep -E 'static-pie linked.*stripped'
  # It needs no library.
  if readelf -d "$program" | grep NEEDED; then return 1; fi
}

# An empty root with the program and a plugin. The program finds itself by /proc, to compile in another process,
# whose input is /dev/null.
in_root() { # COMMAND…
  local root=$WORK/root
  mkdir -p "$root"/{plugins,proc,dev,tmp}
  touch "$root/dev/null"
  cp "$program" "$root/toolyard"
  cp plugins/dist/jq.wasm "$root/plugins/"
  exec unshare -r -m sh -c \
    'mount --rbind /proc "$1/proc" && mount --bind /dev/null "$1/dev/null" && shift && exec chroot "$@"' \
    sh "$root" "$root" "$@"
}

runs_in_an_empty_root() {
  (in_root /toolyard check /plugins/jq.wasm --data /tmp/data) | has jq
  (in_root /toolyard call jq '{"program": ".a", "input": {"a": "from a chroot"}}' --plugins /plugins --data /tmp/data) |
    has "from a chroot"
}

serves_from_an_empty_root() {
  local url
  (in_root /toolyard serve --plugins /plugins --data /tmp/data --listen 127.0.0.1:0) 2>"$WORK/serve.log" &
  pid=$!
  trap 'stop "$pid"' EXIT
  until_ok grep -q 'http://[^ ]*/mcp' "$WORK/serve.log"
  url=$(grep -o -m 1 'http://[^ ]*/mcp' "$WORK/serve.log")
  curl -sf "$url" -H 'content-type: application/json' -H 'accept: application/json, text/event-stream' -d \
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}' |
    has "\"version\":\"$VERSION\""
  threads_have_large_stacks "$pid"
}

# musl gives a thread a stack of 128 KiB unless the program asks for more. A stack is writable memory after a guard.
threads_have_large_stacks() { # PID
  python3 - "$1" <<'PY'
import os, re, sys
process = f"/proc/{sys.argv[1]}"
spans, before = [], None
for line in open(f"{process}/maps"):
    start, end, mode, offset, file = re.match(r"(\w+)-(\w+) (\S+) (\S+) \S+ \S+ *(.*)", line).groups()
    start, end = int(start, 16), int(end, 16)
    if before and before[1] == start and before[2] == "---p" and mode == "rw-p" and not file:
        spans.append(end - start)
    before = start, end, mode
threads = len(os.listdir(f"{process}/task")) - 1
large = sum(span >= 2 << 20 for span in spans)
print(f"{threads} threads beside the main one, {large} stacks of 2 MiB or more")
assert 0 < threads <= large
PY
}

# The candidates that bash shows for the last word.
bash_candidates() { # WORD…
  bash -c '
    . "$1" && shift
    spec=$(complete -p toolyard) && spec=${spec##*-F } && completer=${spec%% *}
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE=$* COMP_POINT=${#COMP_LINE}
    "$completer" toolyard "${!#}" "${@: -2:1}"
    printf "%s\n" "${COMPREPLY[@]}"' bash "$folder/completions/toolyard.bash" "$@"
}

bash_completes() {
  bash -n "$folder/completions/toolyard.bash"
  [ "$(bash_candidates toolyard con)" = connect ]
  [ "$(bash_candidates toolyard tasks can)" = cancel ]
  bash_candidates toolyard serve --li | has --listen
}

fish_completes() {
  debian_tool fish
  with_libraries fish --no-config -n "$folder/completions/toolyard.fish"
  # Debian's fish looks for its functions in /usr.
  HOME=$WORK with_libraries fish --no-config -c '
    set fish_function_path $argv[1]
    source $argv[2]
    complete -C "toolyard con"
    complete -C "toolyard tasks can"
    complete -C "toolyard serve --li"' \
    "$TOOL_ROOT/usr/share/fish/functions" "$folder/completions/toolyard.fish" | cut -f 1 >"$WORK/fish.txt"
  printf '%s\n' connect cancel --listen | diff - "$WORK/fish.txt"
}

zsh_reads_completions() {
  debian_tool zsh
  with_libraries "$TOOL_ROOT/bin/zsh" -f -n "$folder/completions/_toolyard"
  has "#compdef toolyard" "$folder/completions/_toolyard"
}

# The variable edit: exists only in a terminal.
elvish_completes() {
  debian_tool elvish
  {
    echo 'var edit: = (ns [&completion:=(ns [&arg-completer=[&]]) &complex-candidate~={|text &display=x| put $text}])'
    cat "$folder/completions/toolyard.elv"
    echo 'each {|name| echo $name } [($edit:completion:arg-completer[toolyard] toolyard tasks "")]'
  } >"$WORK/completion.elv"
  with_libraries elvish -norc "$WORK/completion.elv" | has cancel
}

# Asks the program for its commands, and for those of each.
commands() { # COMMAND…
  local name
  echo "$*"
  "$program" "${@:2}" --help | awk '/^Commands.*:/ { on = 1; next } !NF { on = 0 } on && /^  [a-z]/ { print $1 }' |
    while read -r name; do
      [ "$name" = help ] || commands "$@" "$name"
    done
}

every_command_has_a_page() {
  local file
  commands toolyard >"$WORK/commands.txt"
  has "toolyard tasks list" "$WORK/commands.txt"
  sed 's/ /-/g; s/$/.1/' "$WORK/commands.txt" | sort >"$WORK/pages.txt"
  ls "$folder/man" | sort | diff "$WORK/pages.txt" -
  for file in toolyard.bash _toolyard toolyard.fish toolyard.elv _toolyard.ps1; do
    while read -r name; do has "${name##* }" "$folder/completions/$file"; done <"$WORK/commands.txt"
  done
}

man_pages_are_sound() {
  local page
  debian_tool mandoc
  for page in "$folder"/man/*.1; do
    # groff's warnings name mistakes of the page. Those of mandoc are about style, for example that the page has no
    # date, which would differ in each build.
    groff -man -Tutf8 -ww -z "$page"
    with_libraries mandoc -Tlint -Werror "$page" || true
  done >"$WORK/lint.txt" 2>&1
  same "$WORK/lint.txt" /dev/null || { cat "$WORK/lint.txt"; return 1; }
}

lists_packages() {
  python3 - "$folder" Cargo.lock <<'PY'
import json, sys, tomllib
folder, lock = sys.argv[1:]
sbom = {(c["name"], c["version"]) for c in json.load(open(f"{folder}/toolyard.cdx.json"))["components"]}
locked = {(p["name"], p["version"]) for p in tomllib.load(open(lock, "rb"))["package"]}
assert sbom <= locked, f"not in {lock}: {sbom - locked}"
assert any(name == "wasmtime" for name, _ in sbom), "no wasmtime"
licences = open(f"{folder}/THIRD-PARTY-LICENSES.txt").read()
missing = [f"{n} {v}" for n, v in sorted(sbom) if not n.startswith("toolyard") and f"  {n} {v}\n" not in licences]
assert not missing, f"without a licence: {missing}"
PY
}

# The section .dep-v0 has exactly the packages of the list beside the program.
program_lists_packages() {
  python3 - "$folder" <<'PY'
import json, struct, sys, zlib
folder = sys.argv[1]
elf = open(f"{folder}/bin/toolyard", "rb").read()
table, = struct.unpack_from("<Q", elf, 40)
size, count, strings = struct.unpack_from("<HHH", elf, 58)
sections = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
name = lambda s: elf[sections[strings][4] + s[0] :].split(b"\0", 1)[0]
found = [elf[s[4] : s[4] + s[5]] for s in sections if name(s) == b".dep-v0"]
assert found, "the program has no section .dep-v0"
packages = json.loads(zlib.decompress(found[0]))["packages"]
listed = {(p["name"], p["version"]) for p in packages}
sbom = json.load(open(f"{folder}/toolyard.cdx.json"))
sbom = {(c["name"], c["version"]) for c in [sbom["metadata"]["component"], *sbom["components"]]}
assert sbom == listed, f"differ: {sbom ^ listed}"
PY
}

licences_cover_the_libraries() {
  local text
  for text in "The Rust standard library" "hashbrown" "musl, the C library" "Rich Felker" \
    "Daan Leijen" "Permission is hereby granted"; do
    has "$text" "$folder/THIRD-PARTY-LICENSES.txt"
  done
}

# Neither the program nor a file beside it.
names_no_folder_of_the_builder() {
  local text
  for text in "$ROOT" "${CARGO_HOME:-$HOME/.cargo}"; do
    if grep -raoF -m 1 -- "$text" "$folder"; then return 1; fi
  done
}

# The other files are those of the sources, and equal sources make equal bytes.
tarball_is_reproducible() {
  local names
  names=$(tar -tvzf "$tarball" --numeric-owner --full-time)
  if grep -vE "^\S+ 0/0 +[0-9]+ $(date -d "@$SOURCE_DATE_EPOCH" '+%F %T')" <<<"$names"; then return 1; fi
  [ "$(head -c 8 "$tarball" | od -An -tx1 | tr -d ' ')" = 1f8b080000000000 ] || {
    echo "gzip wrote a name or a time"
    return 1
  }
}

sums_are_right() {
  cd "$OUT"
  local name
  for name in "$(basename "$tarball")" npm/*.tgz pypi/*.whl ./*.deb ./*.mcpb ./*-image.tar; do
    # An artefact that was not made is its own pattern.
    [[ $name == *\** ]] || has "  ${name#./}" SHA256SUMS
  done
  sha256sum --quiet --strict -c SHA256SUMS
}

check "binary: the program is static" is_static
check "binary: it runs in an empty root" runs_in_an_empty_root
check "binary: it serves from an empty root, and its threads have large stacks" serves_from_an_empty_root
check "binary: every command has a page and completions" every_command_has_a_page
check "binary: bash completes commands" bash_completes
check "binary: fish completes commands" fish_completes
check "binary: elvish completes commands" elvish_completes
check "binary: zsh reads its completions" zsh_reads_completions
check "binary: man pages are sound" man_pages_are_sound
check "binary: packages and their licences are listed" lists_packages
check "binary: the program lists its packages" program_lists_packages
check "binary: licences cover the libraries of C and Rust" licences_cover_the_libraries
check "binary: nothing names a folder of its builder" names_no_folder_of_the_builder
check "binary: the tarball is reproducible" tarball_is_reproducible
check "binary: the sums are right" sums_are_right
