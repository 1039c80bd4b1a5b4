#!/usr/bin/env bash
# Writes the container image as an OCI layout in a tar, which docker, podman and skopeo read. It needs
# no container engine and no root: an image is a tar of files and three JSON documents that name each
# other by checksum. host/packaging/Containerfile makes the same image with an engine.
set -euo pipefail
. "$(dirname "$0")/common.sh"
need_program
need tar gzip sha256sum

# Debian's ca-certificates has this bundle. A plugin that may reach https hosts needs it.
CERTIFICATES=${CERTIFICATES:-/etc/ssl/certs/ca-certificates.crt}
[ -f "$CERTIFICATES" ] || die "there is no $CERTIFICATES; install ca-certificates, or set CERTIFICATES"

work=$OUT/image
root=$work/root
layout=$work/layout
fresh "$root"
mkdir -p "$layout/blobs/sha256" "$root"/{usr/bin,etc/ssl/certs,etc/toolyard,plugins,data,tmp}
cp "$BIN" "$root/usr/bin/toolyard"
cp "$CERTIFICATES" "$root/etc/ssl/certs/ca-certificates.crt"
cp host/packaging/image.toml "$root/etc/toolyard/toolyard.toml"
printf 'root:x:0:0::/:/sbin/nologin\ntoolyard:x:65532:65532::/data:/sbin/nologin\n' >"$root/etc/passwd"
printf 'root:x:0:\ntoolyard:x:65532:\n' >"$root/etc/group"
chmod -R u=rwX,go=rX "$root"

deterministic_tar() { # further options of tar
  tar --format=ustar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --numeric-owner "$@"
}

# tar cannot give two owners in one call, so the layer has two parts: first what belongs to root.
deterministic_tar --owner=0 --group=0 -C "$root" -cf "$work/layer.tar" --exclude=./data --exclude=./tmp .
chmod 700 "$root/data"
deterministic_tar --owner=65532 --group=65532 -C "$root" -rf "$work/layer.tar" ./data
chmod 1777 "$root/tmp"
deterministic_tar --owner=0 --group=0 -C "$root" -rf "$work/layer.tar" ./tmp

digest() { # FILE
  sha256sum "$1" | cut -d ' ' -f 1
}

# Moves a file among the blobs, and prints its descriptor.
blob() { # FILE, MEDIA TYPE
  local sum size
  sum=$(digest "$1")
  size=$(stat -c %s "$1")
  mv "$1" "$layout/blobs/sha256/$sum"
  printf '{"mediaType":"%s","digest":"sha256:%s","size":%s}' "$2" "$sum" "$size"
}

diff=$(digest "$work/layer.tar")
gzip -9n "$work/layer.tar"
layer=$(blob "$work/layer.tar.gz" application/vnd.oci.image.layer.v1.tar+gzip)
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
revision=$(git rev-parse HEAD)

labels=$(
  cat <<JSON
{
      "io.modelcontextprotocol.server.name": "$MCP_NAME",
      "org.opencontainers.image.created": "$created",
      "org.opencontainers.image.description": "$SUMMARY",
      "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
      "org.opencontainers.image.revision": "$revision",
      "org.opencontainers.image.source": "$REPOSITORY",
      "org.opencontainers.image.title": "toolyard",
      "org.opencontainers.image.version": "$VERSION"
    }
JSON
)
cat >"$work/config.json" <<JSON
{
  "created": "$created",
  "architecture": "amd64",
  "os": "linux",
  "config": {
    "User": "65532:65532",
    "ExposedPorts": { "7420/tcp": {} },
    "Env": [
      "PATH=/usr/bin",
      "HOME=/data",
      "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
      "TOOLYARD_CONFIG=/etc/toolyard/toolyard.toml",
      "TOOLYARD_LISTEN=0.0.0.0:7420",
      "TOOLYARD_PLUGINS=/plugins",
      "TOOLYARD_DATA=/data"
    ],
    "Entrypoint": ["/usr/bin/toolyard"],
    "Cmd": ["serve"],
    "Volumes": { "/data": {} },
    "WorkingDir": "/data",
    "StopSignal": "SIGTERM",
    "Labels": $labels
  },
  "rootfs": { "type": "layers", "diff_ids": ["sha256:$diff"] },
  "history": [{ "created": "$created", "created_by": "host/packaging/image.sh" }]
}
JSON
config=$(blob "$work/config.json" application/vnd.oci.image.config.v1+json)
manifest_type=application/vnd.oci.image.manifest.v1+json
cat >"$work/manifest.json" <<JSON
{
  "schemaVersion": 2,
  "mediaType": "$manifest_type",
  "config": $config,
  "layers": [$layer],
  "annotations": $labels
}
JSON
manifest=$(blob "$work/manifest.json" "$manifest_type")
cat >"$layout/index.json" <<JSON
{
  "schemaVersion": 2,
  "mediaType": "application/vnd.oci.image.index.v1+json",
  "manifests": [
    ${manifest%\}},"annotations":{"org.opencontainers.image.ref.name":"$VERSION"}}
  ]
}
JSON
printf '{"imageLayoutVersion":"1.0.0"}\n' >"$layout/oci-layout"

archive=$OUT/toolyard-$VERSION-image.tar
deterministic_tar --owner=0 --group=0 --mode=u=rwX,go=rX -C "$layout" -cf "$archive" blobs index.json oci-layout
rm -rf "$work"
made "$archive"
