#!/usr/bin/env bash
# Installs what Fovea is measured against into Python environments outside the checkout. Into one, Triton Inference Server
# (the tritonserver inside nvidia-pytriton), OpenVINO with NNCF, ONNX Runtime, and the reference model libraries; into one of
# its own, because it needs a torch of its own, the library of this processor's vendor:
#   on Intel   Intel Extension for PyTorch. 2.8.0 is the last: Intel has archived it, with known security issues.
#   on AMD     zentorch (ZenDNN), the last of its releases for the torch that Fovea has.
# Each environment takes 5 to 7 GB: PyPI's torch links NVIDIA's libraries, and does not load without them.
#   tests/peers/install.sh          into $PEERS (~/.cache/fovea/peers by default), and $PEERS-ipex or $PEERS-zentorch
set -euo pipefail
cd "$(dirname "$0")/../.."
PEERS=${PEERS:-${FOVEA_CACHE:-$HOME/.cache/fovea}/peers}

make_environment() { [ -x "$1/bin/python" ] || "${PYTHON:-python3}" -m venv "$1"; }
pip_install() { "$1/bin/pip" install --disable-pip-version-check --no-input "${@:2}"; }

make_environment "$PEERS"
# Versions of the references as in requirements-test.txt; numpy is whatever pytriton still accepts.
pip_install "$PEERS" torch==2.11.0 torchvision==0.26.0 timm==1.0.31 \
  transformers==5.24.0 safetensors==0.8.0 pillow 'tritonclient[all]' nvidia-pytriton==0.7.0 openvino==2026.4.1 \
  nncf==3.4.0 onnx==1.23.2 onnxruntime==1.32.0
tests/peers/install_perf_analyzer.sh "$PEERS"
echo "peers installed in $PEERS"

# install_vendors NAME LIBRARY PACKAGE...: into $PEERS-NAME. Where there is no wheel of LIBRARY for this Python and platform,
# says so; whatever else goes wrong ends the script.
install_vendors() {
  local own=$PEERS-$1 library=$2 said
  make_environment "$own"
  if ! said=$(pip_install "$own" --dry-run --no-deps --only-binary :all: "$library" 2>&1); then
    # An index that does not answer has no distribution either, after some retries.
    if [[ $said != *'No matching distribution found'* || $said == *Retrying* ]]; then
      echo "$said" >&2
      exit 1
    fi
    rm -r "$own"
    echo "$library is left out: it has no wheel for $("${PYTHON:-python3}" --version) on $(uname -m)"
    return
  fi
  pip_install "$own" "${@:2}" timm==1.0.31
  echo "$library installed in $own"
}

case $(sed -n '/^vendor_id/{s/.*: //p;q}' /proc/cpuinfo) in
  GenuineIntel) install_vendors ipex intel-extension-for-pytorch==2.8.0 torch==2.8.0 torchvision==0.23.0 ;;
  AuthenticAMD) install_vendors zentorch zentorch==2.11.0.3 torch==2.11.0 torchvision==0.26.0 ;;
  *) echo "no library of this processor's vendor is known" ;;
esac
