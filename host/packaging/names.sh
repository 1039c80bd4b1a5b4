# The public names of Toolyard: the only file that decides them. Scripts source it.
#
# The npm registry and the Python package index had no package of the names below on 2026-11-26.

NPM_PACKAGE=toolyard
NPM_SCOPE=@toolyard
PYPI_PROJECT=toolyard
DEB_PACKAGE=toolyard
MAINTAINER="Toolyard maintainers <maintainers@toolyard.invalid>"
SUMMARY="Runs sandboxed WebAssembly tools over the Model Context Protocol"

# A release workflow knows the owner of its repository. Elsewhere, OWNER is a placeholder, so that local
# packages name no real account.
OWNER=${GITHUB_REPOSITORY_OWNER:-OWNER}
REPOSITORY=https://github.com/$OWNER/toolyard
MCP_NAME=io.github.$OWNER/toolyard
# Registries of images accept lower case only.
IMAGE=ghcr.io/${OWNER,,}/toolyard
