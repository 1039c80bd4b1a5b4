# Shared by the install scripts: how to continue without a tool, and how to recognise a complete and
# current installation. Source this file.

without() { # STAMP, WHAT, WHY
  # An earlier installation may need files that no longer exist.
  rm -f "$1"
  shift
  {
    echo "************************************************************************"
    echo "SKIPPED: $1"
    echo "  $2"
    echo "  Its tests will be skipped too."
    echo "************************************************************************"
  } >&2
  if [ "${CI:-}" = true ]; then
    echo "install.sh: CI=true, so this is an error" >&2
    exit 1
  fi
}

checksum() {
  if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi
}

# Identifies an installation: its pins, and the interpreter that it runs under.
fingerprint() { # VERSION, FILES…
  local version=$1
  shift
  { echo "$version"; cat -- "$@"; } | checksum | cut -d ' ' -f 1
}

is_current() { # STAMP, FINGERPRINT
  [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]
}
