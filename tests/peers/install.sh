#!/usr/bin/env bash
# Installs what Fovea is measured against into one Python environment outside the checkout: Triton Inference Server
# (the tritonserver inside nvidia-pytriton), OpenVINO with NNCF, ONNX Runtime, and the reference model libraries.
#   tests/peers/install.sh          into $PEERS (~/.cache/fovea/peers by default)
set -euo pipefail
cd "$(dirname "$0")/../.."
PEERS=${PEERS:-${FOVEA_CACHE:-$HOME/.cache/fovea}/peers}
[ -x "$PEERS/bin/python" ] || "${PYTHON:-python3}" -m venv "$PEERS"
# Versions of the references as in requirements-test.txt; numpy is whatever pytriton still accepts.
"$PEERS/bin/pip" install --disable-pip-version-check --no-input torch==2.11.0 torchvision==0.26.0 timm==1.0.31 \
  transformers safetensors pillow 'tritonclient[all]' nvidia-pytriton==0.7.0 openvino nncf==3.4.0 onnx onnxruntime
tests/peers/install_perf_analyzer.sh "$PEERS"
echo "peers installed in $PEERS"
