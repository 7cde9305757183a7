#!/usr/bin/env bash
# Environment variables, conflict markers, includes, rows of docs/faults.md, ruff, mypy, formatting, thread-safety annotations, clang-tidy of the
# torch-free parts: tests/lint.sh BUILD. `tests/lint.sh --quick`: the first five alone, which need no build and take seconds.
# Exits 1 on any finding.
set -uo pipefail
cd "$(dirname "$0")/.."
build=$1
failed=0
step() { printf '\n== %s\n' "$1"; }

step "environment variables"
# A variable that a program reads is part of its interface: outside these files, and tests, none is read.
environment_readers='client/cpp/cli/app.cc client/cpp/cli/companion.cc client/cpp/cli/main.cc client/cpp/cli/server_access.cc kernels/choice/choice.cc
  kernels/barrier_waits.cc kernels/dispatch.cc
  server/lifecycle/config_file.cc server/lifecycle/openmp_spinning.cc server/lifecycle/options.cc
  server/lifecycle/service_manager.cc tests/'
if git grep -nw -e getenv -e secure_getenv -- '*.h' '*.cc' '*.cu' $(printf ':!%s ' $environment_readers); then failed=1; fi

step "conflict markers"
if git grep -nE '^(<<<<<<<|>>>>>>>) '; then failed=1; fi

step "includes"
.venv/bin/python tests/include_edges.py || failed=1

step "rows of docs/faults.md"
.venv/bin/python tests/fault_rows.py || failed=1

step "ruff"
.venv/bin/ruff check $(git ls-files '*.py') || failed=1
.venv/bin/ruff format --check $(git ls-files '*.py') || failed=1
[ "$build" != --quick ] || exit $failed

step "types of the Python package"
# (mypy looks where it runs for its configuration.)
(cd client/python && ../../.venv/bin/mypy --cache-dir "$OLDPWD/$build/mypy") || failed=1

step "clang-format"
git ls-files '*.h' '*.cc' '*.cu' | xargs clang-format-14 --dry-run -Werror || failed=1

step "thread-safety annotations (clang)"
# The parts without LibTorch, whose headers clang 14 need not parse.
for file in $(git ls-files 'server/core/*.cc' 'server/scheduler/*.cc' 'server/repository/*.cc' 'server/imaging/*.cc' \
  'base/*.cc' 'model_zoo/folder/*.cc' 'server/admission/*.cc' 'server/api/*.cc' 'server/tracing/*.cc' 'server/transport/*.cc' 'server/observe/*.cc' 'server/lifecycle/*.cc'); do
  clang++-14 -std=c++20 -fsyntax-only -I . -I "$build/generated" -I "$build/generated/proto" \
    -DFOVEA_VERSION='""' -Wthread-safety -Werror=thread-safety "$file" || failed=1
done

step "clang-tidy"
clang-tidy-14 -p "$build" --quiet $(git ls-files 'base/*.cc' 'server/core/*.cc' 'server/scheduler/*.cc' 'server/postprocess/*.cc') \
  2> >(grep -v 'warnings generated' >&2) || failed=1
exit $failed
