#!/usr/bin/env bash
# The Debian package: lintian, its unit, its files, and its installation into an empty root.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. host/packaging/check.sh
. host/packaging/tools.sh
debian_tool lintian
deb=$OUT/${DEB_PACKAGE}_${VERSION}_amd64.deb
probe_folder "$WORK/tools"
root=$WORK/root
mkdir -p "$root"

no_lintian_errors() {
  # lintian looks for its data beside its program; Perl must be told about its modules.
  local modules=$TOOL_ROOT/usr/share/perl5:$TOOL_ROOT/usr/lib/x86_64-linux-gnu/perl5/5.36
  with_libraries env PERL5LIB="$modules" LINTIAN_BASE="$TOOL_ROOT/usr/share/lintian" TMPDIR="$WORK" \
    lintian --allow-root --no-cfg --fail-on error "$deb"
}

unpacked_runs() {
  dpkg -x "$deb" "$root"
  same "$BIN" "$root/usr/bin/toolyard"
  bare "$root/usr/bin/toolyard" --version | has "$("$BIN" --version)"
}

unit_is_valid() {
  # The unit names the installed program, which is not on this machine.
  sed "s#/usr/bin/toolyard#$root/usr/bin/toolyard#" "$root/usr/lib/systemd/system/toolyard.service" \
    >"$WORK/toolyard.service"
  # The manual page is not installed either.
  systemd-analyze verify --man=no "$WORK/toolyard.service"
}

# A change that loosens the unit must be deliberate. 10 is a service without any protection.
unit_is_hardened() {
  systemd-analyze security --no-pager --offline=yes --threshold=20 "$WORK/toolyard.service" | tail -n 1
  ! grep -q '^MemoryDenyWriteExecute' "$WORK/toolyard.service"
}

# The configuration as the service reads it, with the folders and a free port of this test.
conffile_serves() {
  local port
  port=$(free_port)
  sed -e "s#\"/etc/toolyard/plugins\"#\"$WORK/tools\"#" -e "s#\"/var/lib/toolyard\"#\"$WORK/data\"#" \
    "$root/etc/toolyard/toolyard.toml" >"$WORK/toolyard.toml"
  # A command, not a function: the process that the test stops must be the host.
  env -i HOME="$WORK/home" "$root/usr/bin/toolyard" serve --config "$WORK/toolyard.toml" --listen "127.0.0.1:$port" &
  pid=$!
  trap 'stop "$pid"' EXIT
  until_ok curl -s "http://127.0.0.1:$port/mcp"
  answers --url "http://127.0.0.1:$port/mcp"
  [ -f "$WORK/data/toolyard.sqlite" ]
}

dpkg_in() { # ROOT, further options of dpkg
  local root=$1
  shift
  # In a user namespace, so that the test needs no root. The empty root has no shell, so the maintainer
  # scripts run outside of it, with its path in DPKG_ROOT.
  unshare --map-root-user dpkg --root="$root" --force-not-root --force-script-chrootless --force-depends \
    --log="$WORK/dpkg.log" "$@"
}

installs_and_purges() {
  local empty=$WORK/empty
  mkdir -p "$empty"/var/lib/dpkg/{info,updates,triggers} "$empty"/var/lib/toolyard
  touch "$empty"/var/lib/dpkg/{status,available}
  dpkg_in "$empty" --install "$deb"
  dpkg-query --admindir="$empty/var/lib/dpkg" --show --showformat '${Status}' "$DEB_PACKAGE" | has "install ok installed"
  "$empty/usr/bin/toolyard" --version
  # dpkg keeps the administrator's configuration.
  echo '# mine' >>"$empty/etc/toolyard/toolyard.toml"
  dpkg_in "$empty" --remove "$DEB_PACKAGE"
  has "# mine" "$empty/etc/toolyard/toolyard.toml"
  [ ! -e "$empty/usr/bin/toolyard" ]
  dpkg_in "$empty" --purge "$DEB_PACKAGE"
  [ ! -e "$empty/etc/toolyard/toolyard.toml" ] && [ ! -e "$empty/var/lib/toolyard" ]
}

check "deb: lintian finds no errors" no_lintian_errors
check "deb: the unpacked program is the very program, and runs" unpacked_runs
check "deb: systemd accepts the unit" unit_is_valid
check "deb: the unit is hardened, and leaves the compiler working" unit_is_hardened
check "deb: the configuration file serves tools" conffile_serves
check "deb: dpkg installs, removes and purges it in an empty root" installs_and_purges
