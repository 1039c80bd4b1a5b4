# What the install scripts beside share: what to do without, and how to tell an
# installation that is complete and current. To be sourced.

without() { # STAMP, WHAT, WHY
  # What was installed once may need what has gone since.
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

# What an installation was made from: the pins, and the interpreter it runs under.
fingerprint() { # VERSION, FILES…
  local version=$1
  shift
  { echo "$version"; cat -- "$@"; } | checksum | cut -d ' ' -f 1
}

is_current() { # STAMP, FINGERPRINT
  [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]
}
