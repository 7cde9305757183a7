#!/usr/bin/env bash
# Installs what a build needs and is not there yet:
#   deploy/setup/setup.sh build     Debian packages, and .venv with LibTorch
#   deploy/setup/setup.sh bench     besides the build's, what benchmarks draw with
#   deploy/setup/setup.sh test      besides these, the references and clients that the tests compare with
#   deploy/setup/setup.sh deploy    besides the tests', what runs containers
# .venv is a link into a cache outside the checkout, keyed by the requirements, so that a clean checkout starts quickly
# (FOVEA_CACHE, ~/.cache/fovea by default). Nothing is done twice.
set -euo pipefail
cd "$(dirname "$0")/../.."
what=${1:-build}
cache=${FOVEA_CACHE:-$HOME/.cache/fovea}
python=${PYTHON:-python3}
mkdir -p "$cache"

say() { printf '\033[1m== %s\033[0m\n' "$*"; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

lists=(deploy/setup/debian-packages.txt)
if [ "$what" = deploy ]; then
  lists+=(deploy/setup/debian-packages-deploy.txt)
  what=test
fi
[ "$what" != test ] || lists+=(deploy/setup/debian-packages-test.txt)
missing=()
while read -r package; do
  case $package in '' | '#'*) continue ;; esac
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing+=("$package")
done < <(cat "${lists[@]}")
if [ ${#missing[@]} -gt 0 ]; then
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  # Debian starts a server that it installs, now and at each boot, unless such a policy forbids it. Tests start their own.
  policy=/usr/sbin/policy-rc.d
  as_root apt-get update -q
  if [ ! -e $policy ]; then
    trap 'as_root rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' | as_root tee $policy > /dev/null
    as_root chmod 755 $policy
  else
    policy=
  fi
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
  [ -z "$policy" ] || as_root rm -f $policy
  trap - EXIT
  for server in haproxy nginx prometheus; do
    case " ${missing[*]} " in *" $server "*) as_root systemctl disable $server 2> /dev/null || true ;; esac
  done
fi

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
key=$(cat requirements.txt requirements-test.txt | sha256sum | cut -c1-12)
venv=$cache/venv-$version-$key
(
  flock 9   # two checkouts may start at once
  if [ ! -e "$venv/.build-ready" ]; then
    say "LibTorch into $venv (about 4.7 GB; some minutes)"
    "$python" -m venv "$venv"
    "$venv/bin/pip" install --disable-pip-version-check --no-input -r requirements.txt
    touch "$venv/.build-ready"
  fi
  if [ "$what" = test ] && [ ! -e "$venv/.test-ready" ]; then
    say "references and clients of the tests into $venv"
    "$venv/bin/pip" install --disable-pip-version-check --no-input -r requirements.txt -r requirements-test.txt
    tests/peers/install_perf_analyzer.sh "$venv"
    touch "$venv/.test-ready"
  fi
  if [ "$what" = test ] && [ ! -e "$venv/.runner-ready" ]; then
    "$venv/bin/pip" install --disable-pip-version-check --no-input -r requirements-runner.txt
    touch "$venv/.runner-ready"
  fi
  [ "$what" != test ] || tests/deploy/fetch_docker_profile.sh "$venv/share/seccomp/docker.json"
  if [ "$what" != build ] && [ ! -e "$venv/.bench-ready" ]; then
    say "what benchmarks draw with into $venv"
    "$venv/bin/pip" install --disable-pip-version-check --no-input -r requirements.txt -r requirements-bench.txt
    touch "$venv/.bench-ready"
  fi
) 9> "$venv.lock"
[ "$what" != test ] || FOVEA_CACHE=$cache deploy/setup/docs.sh --install
[ "$(readlink .venv 2>/dev/null)" = "$venv" ] || ln -sfn "$venv" .venv
