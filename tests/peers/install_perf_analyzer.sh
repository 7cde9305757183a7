#!/usr/bin/env bash
# Installs NVIDIA's perf_analyzer, unmodified, into a Python environment: tests/peers/install_perf_analyzer.sh VENV.
# tritonclient 2.45.0 is the last wheel that carries the binary; it links the CUDA 12 run time, whose wheel lends the
# library, and libb64 (a Debian package).
set -euo pipefail
venv=$1
[ ! -x "$venv/bin/perf_analyzer" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$venv/bin/pip" download -q --disable-pip-version-check --no-deps -d "$work" tritonclient==2.45.0 nvidia-cuda-runtime-cu12
lib=$venv/lib/perf_analyzer
mkdir -p "$lib"
"$venv/bin/python" - "$work" "$lib" <<'PYTHON'
import pathlib, sys, zipfile
work, lib = map(pathlib.Path, sys.argv[1:])
wanted = {"data/bin/perf_analyzer": "perf_analyzer.bin", "cuda_runtime/lib/libcudart.so.12": "libcudart.so.12"}
for wheel in work.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            for ending, name in wanted.items():
                if member.endswith(ending):
                    (lib / name).write_bytes(archive.read(member))
for name in wanted.values():
    (lib / name).chmod(0o755)
PYTHON
cat > "$venv/bin/perf_analyzer" <<'RUN'
#!/bin/sh
lib=$(dirname "$(dirname "$(readlink -f "$0")")")/lib/perf_analyzer
LD_LIBRARY_PATH=$lib exec "$lib/perf_analyzer.bin" "$@"
RUN
chmod +x "$venv/bin/perf_analyzer"
"$venv/bin/perf_analyzer" --version
