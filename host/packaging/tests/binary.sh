#!/usr/bin/env bash
# The static program alone, and the tarball with what comes with it.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. host/packaging/check.sh

tarball=$OUT/toolyard-$VERSION-x86_64-linux.tar.gz
folder=$WORK/toolyard-$VERSION-x86_64-linux
tools=$ROOT/target/tools
tar -xzf "$tarball" -C "$WORK"

is_static() {
  file "$folder/bin/toolyard" | grep -E 'static-pie linked.*stripped'
  ! ldd "$folder/bin/toolyard"
}

# An empty root with the program, a plugin, and /proc, by which the program finds itself.
chroot_call() {
  local root=$WORK/root
  mkdir -p "$root/plugins" "$root/proc" "$root/tmp"
  cp "$folder/bin/toolyard" "$root/toolyard"
  cp plugins/dist/jq.wasm "$root/plugins/"
  in_root() {
    unshare -r -m sh -c 'mount --rbind /proc "$1/proc" && shift && exec chroot "$@"' sh "$root" "$root" /toolyard "$@"
  }
  in_root check /plugins/jq.wasm --data /tmp/data | has jq
  in_root call jq '{"program": ".a", "input": {"a": "from a chroot"}}' --plugins /plugins --data /tmp/data |
    has "from a chroot"
}

serves() {
  "$folder/bin/toolyard" serve --plugins plugins/dist --data "$WORK/data" --listen 127.0.0.1:0 2>"$WORK/serve.log" &
  local host=$! url
  trap "kill $host; wait $host" EXIT
  for _ in $(seq 300); do
    url=$(grep -o 'http://[^ ]*/mcp' "$WORK/serve.log" | head -n 1) && break
    sleep 0.1
  done
  curl -sf "$url" -H 'content-type: application/json' -H 'accept: application/json, text/event-stream' -d \
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}' |
    has "\"version\":\"$VERSION\""
}

bash_completes() {
  bash -c '. "$1"; COMP_WORDS=(toolyard con); COMP_CWORD=1; _toolyard toolyard con toolyard; printf "%s\n" "${COMPREPLY[@]}"' \
    bash "$folder/completions/toolyard.bash" | has connect
}

man_pages_are_sound() {
  local page
  for page in "$folder"/man/*.1; do
    # groff is on every Debian; its warnings name mistakes of the page.
    [ -z "$(groff -man -Tutf8 -ww -z "$page" 2>&1)" ] || { groff -man -Tutf8 -ww -z "$page"; return 1; }
  done
  [ -e "$folder/man/toolyard-connect.1" ] && [ ! -e "$folder/man/toolyard-background-host.1" ]
}

lists_packages() {
  python3 - "$folder" Cargo.lock "$folder/bin/toolyard" <<'PY'
import json, sys, tomllib, zlib
folder, lock, program = sys.argv[1:]
sbom = {(c["name"], c["version"]) for c in json.load(open(f"{folder}/toolyard.cdx.json"))["components"]}
locked = {(p["name"], p["version"]) for p in tomllib.load(open(lock, "rb"))["package"]}
assert any(name == "wasmtime" for name, _ in sbom) and sbom <= locked, sbom - locked
licences = open(f"{folder}/THIRD-PARTY-LICENSES.txt").read()
missing = [f"{n} {v}" for n, v in sbom if not n.startswith("toolyard") and f"  {n} {v}\n" not in licences]
assert not missing, f"without a licence: {missing}"
# The section .dep-v0 of cargo-auditable.
elf = open(program, "rb").read()
offset, size, count, names = (int.from_bytes(elf[a:b], "little") for a, b in ((40, 48), (58, 60), (60, 62), (62, 64)))
section = lambda i: elf[offset + i * size : offset + (i + 1) * size]
place = lambda s: (int.from_bytes(s[24:32], "little"), int.from_bytes(s[32:40], "little"))
strings = place(section(names))[0]
for i in range(count):
    name = elf[strings + int.from_bytes(section(i)[:4], "little") :]
    if name[: name.index(b"\0")] == b".dep-v0":
        start, length = place(section(i))
        packages = json.loads(zlib.decompress(elf[start : start + length]))["packages"]
        assert any(p["name"] == "wasmtime" for p in packages)
        break
else:
    raise SystemExit("the program has no section .dep-v0")
PY
}

names_no_folder_of_the_builder() {
  ! grep -aoF -m 1 "$ROOT" "$folder/bin/toolyard"
  ! grep -aoF -m 1 "${CARGO_HOME:-$HOME/.cargo}" "$folder/bin/toolyard"
}

check "the program is static" is_static
check "the program runs alone in a chroot" chroot_call
check "the program serves" serves
check "bash completes commands" bash_completes
for completion in bash:toolyard.bash zsh:_toolyard fish:toolyard.fish; do
  shell=${completion%%:*}
  if command -v "$shell" >/dev/null; then
    check "$shell reads its completions" "$shell" -n "$folder/completions/${completion#*:}"
  fi
done
check "man pages are sound" man_pages_are_sound
check "packages and licences are listed" lists_packages
check "the program names no folder of its builder" names_no_folder_of_the_builder
check "the sums are right" sh -c "cd '$OUT' && sha256sum --quiet -c SHA256SUMS"
