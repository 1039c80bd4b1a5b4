#!/usr/bin/env bash
# Builds the plugins of this folder and puts each component and its manifest
# into plugins/dist, an ordinary plugin folder. `probe` is for those who try out clients and limits, and a model should
# not see it beside real tools, so it goes into plugins/extra.
#
# A host may be watching that folder, so a file is replaced only if it differs, and by renaming. The host
# never sees half a component, and a build that changed nothing causes no reload.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/.." && pwd)
dist=$here/dist
# Guests have their own target folder whatever CARGO_TARGET_DIR says. Otherwise a build of the host with other
# flags would invalidate them.
guests=$root/target/guests

# This also replaces RUSTFLAGS, which are meant for the host.
CARGO_ENCODED_RUSTFLAGS=$("$here/wasip2-target.sh")
export CARGO_ENCODED_RUSTFLAGS

(cd "$here" && cargo build --release --locked --workspace --target wasm32-wasip2 --target-dir "$guests" "$@")

# Earlier versions put it there.
rm -f "$dist"/probe.{wasm,toml}

# The temporary name must not look like a plugin.
place() {
    local from=$1 to=$2
    if ! cmp -s "$from" "$to"; then
        cp "$from" "$to.$$.tmp"
        mv "$to.$$.tmp" "$to"
        printf 'plugins: %s\n' "${to#"$root/"}" >&2
    fi
}

mkdir -p "$dist" "$here/extra"
for folder in "$here"/*/; do
    name=$(basename "$folder")
    # A folder with a manifest of the same name is a plugin; others are libraries.
    if [ -f "$folder/$name.toml" ]; then
        # A folder that the manifest grants must exist first, or the host would refuse the plugin. After the
        # first copy its content belongs to the user.
        if [ -d "$folder/start" ] && [ ! -e "$dist/$name" ]; then
            rm -rf "$dist/$name".*.tmp
            cp -R "$folder/start" "$dist/$name.$$.tmp"
            mv "$dist/$name.$$.tmp" "$dist/$name"
            printf 'plugins: %s\n' "plugins/dist/$name/" >&2
        fi
        to=$dist
        if [ "$name" = probe ]; then to=$here/extra; fi
        # The manifest first: a new component must not start without its limits.
        place "$folder/$name.toml" "$to/$name.toml"
        place "$guests/wasm32-wasip2/release/${name//-/_}_plugin.wasm" "$to/$name.wasm"
    fi
done
