# Packages of other Debian releases, without a change to this system: a private apt state reads the lists
# of the given suites from the mirror that this system uses, and its proxy and certificate settings still
# apply. Source this file.

is_debian() {
    [ -r /etc/os-release ] && [ "$(. /etc/os-release && printf '%s' "${ID:-}")" = debian ] || return 1
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null
}

# Prints the codename of this system's release.
debian_release() {
    . /etc/os-release && printf '%s' "${VERSION_CODENAME:-sid}"
}

# Prints the mirror that this system uses for its own release. apt parses its sources, in either of their two
# formats.
debian_mirror() {
    local codename
    codename=$(debian_release)
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk -v release="$codename" '$2 == release && $3 == "main" { print $1; exit }'
}

# Makes the private apt state in a folder: the system's lists, caches and hooks stay unchanged.
write_apt_settings() { # FOLDER, MIRROR, SUITES…
    local stage=$1 mirror=$2 keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    shift 2
    local options='' suite
    [ -r "$keyring" ] && options="[signed-by=$keyring] "
    mkdir -p "$stage"/apt/{lists,cache}/partial
    for suite in "$@"; do
        printf 'deb %s%s %s main\n' "$options" "$mirror" "$suite"
    done >"$stage/apt/sources"
    {
        [ -r /etc/apt/apt.conf ] && printf '#include "/etc/apt/apt.conf";\n'
        printf '#clear APT::Update::%s;\n' Pre-Invoke Post-Invoke Post-Invoke-Success
    } >"$stage/apt/main.conf"
    {
        printf 'Dir::Etc::main "%s";\n' "$stage/apt/main.conf"
        printf 'Dir::Etc::sourcelist "%s";\n' "$stage/apt/sources"
        printf 'Dir::Etc::sourceparts "/dev/null";\n'
        printf 'Dir::State::Lists "%s";\n' "$stage/apt/lists"
        printf 'Dir::Cache "%s";\n' "$stage/apt/cache"
        printf 'Acquire::Languages "none";\n'
        printf 'Acquire::PDiffs "false";\n'
        printf 'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";\n'
        printf 'Acquire::http::Timeout "30";\n'
        # The sandbox user cannot write to this folder.
        printf 'APT::Sandbox::User "%s";\n' "$(id -un)"
    } >"$stage/apt/apt.conf"
}

# Downloads packages by the private apt state of a folder, and unpacks them into its folder `unpacked`.
# No script of theirs runs.
unpack_debian() { # FOLDER, PACKAGES…
    local stage=$1
    shift
    mkdir -p "$stage"/{packages,unpacked}
    (cd "$stage/packages" && APT_CONFIG=$stage/apt/apt.conf apt-get -q download "$@")
    local package
    for package in "$stage"/packages/*.deb; do
        dpkg-deb -x "$package" "$stage/unpacked"
    done
}
