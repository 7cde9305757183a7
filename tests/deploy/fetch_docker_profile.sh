#!/usr/bin/env bash
# Docker's default seccomp profile, out of Debian's package of its sources, into a file: tests/deploy/fetch_docker_profile.sh FILE.
# The package is not installed: it depends on two hundred others, none of which the file needs.
set -euo pipefail
file=$1
[ ! -e "$file" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fetch() { apt-get download -q -o APT::Sandbox::User=root golang-github-docker-docker-dev; }
fetch || { apt-get update -q && fetch; }  # lists may be missing or old
dpkg-deb --fsys-tarfile golang-github-docker-docker-dev_*.deb |
  tar -x ./usr/share/gocode/src/github.com/docker/docker/profiles/seccomp/default.json
install -D -m 644 usr/share/gocode/src/github.com/docker/docker/profiles/seccomp/default.json "$file"
