# An npm registry on loopback, without a way to the public one, that has the packages of this release.
# Source this file after check.sh and tools.sh.

# Sets REGISTRY, REGISTRY_PID and NPMRC.
start_registry() {
  local port token
  port=$(free_port)
  REGISTRY=http://127.0.0.1:$port/
  mkdir -p "$WORK/registry"
  cat >"$WORK/registry/config.yaml" <<YAML
storage: $WORK/registry/storage
auth:
  htpasswd:
    file: $WORK/registry/htpasswd
packages:
  "**":
    access: \$all
    publish: \$authenticated
max_body_size: 200mb
web:
  enable: false
log: { type: stdout, level: warn }
YAML
  verdaccio --config "$WORK/registry/config.yaml" --listen "127.0.0.1:$port" >"$WORK/registry/log" 2>&1 &
  REGISTRY_PID=$!
  trap 'stop "$REGISTRY_PID"' EXIT
  until_ok curl -fs "${REGISTRY}-/ping"
  token=$(curl -fs -X PUT "${REGISTRY}-/user/org.couchdb.user:tester" -H 'content-type: application/json' \
    -d '{"name":"tester","password":"a-password-of-this-test"}' | sed -n 's/.*"token": *"\([^"]*\)".*/\1/p')
  [ -n "$token" ] || die "the npm registry of the test made no user: see $WORK/registry/log"
  NPMRC=$WORK/registry/npmrc
  cat >"$NPMRC" <<INI
registry=$REGISTRY
${REGISTRY#http:}:_authToken=$token
cache=$WORK/npm-cache
update-notifier=false
audit=false
fund=false
INI
  export npm_config_userconfig=$NPMRC
}

publish_to_registry() {
  local package
  for package in "$OUT"/npm/*-linux-x64-*.tgz "$OUT/npm/$NPM_PACKAGE-$VERSION.tgz"; do
    npm publish --silent "$package"
  done
}
