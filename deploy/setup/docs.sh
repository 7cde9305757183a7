#!/usr/bin/env bash
# Builds the site of docs/ into build/docs: docs.sh [OPTION...] of `mkdocs build`. MkDocs has an environment of its own, a
# few megabytes in the cache (FOVEA_CACHE, ~/.cache/fovea by default), keyed by its requirements. `docs.sh --install` only
# installs that.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=${FOVEA_CACHE:-$HOME/.cache/fovea}
python=${PYTHON:-python3}
mkdir -p "$cache"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
venv=$cache/docs-$version-$(sha256sum < requirements-docs.txt | cut -c1-12)
(
  flock 9   # two checkouts may start at once
  if [ ! -e "$venv/.ready" ]; then
    echo "== MkDocs into $venv"
    "$python" -m venv --clear "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check --no-input -r requirements-docs.txt
    touch "$venv/.ready"
  fi
) 9> "$venv.lock"
[ "${1:-}" != --install ] || exit 0
# Material tells at each build of plans for a MkDocs 2: no finding of ours. (--quiet would also silence --strict.)
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --strict "$@"
