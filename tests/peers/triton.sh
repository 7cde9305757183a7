#!/usr/bin/env bash
# Serves a timm model in PyTorch with Triton Inference Server (Python backend, dynamic batching) on loopback, ports
# 18000 (HTTP), 18001 (gRPC), 18002 (metrics), until it is ended:
#   tests/peers/triton.sh MODEL [float32|bfloat16] [queue delay in us] [largest batch]
# TIMEOUT_US: requests that have waited so long are rejected (by default none are, as is Triton's).
set -euo pipefail
PEERS=${PEERS:-${FOVEA_CACHE:-$HOME/.cache/fovea}/peers}
model=$1 dtype=${2:-float32} delay=${3:-2000} largest=${4:-16}
policy=
[ -z "${TIMEOUT_US:-}" ] || policy="default_queue_policy { timeout_action: REJECT default_timeout_microseconds: $TIMEOUT_US }"
size=${SIZE:-224} threads=${THREADS:-$(nproc)}
site=$("$PEERS/bin/python" -c 'import site; print(site.getsitepackages()[0])')
version=$("$PEERS/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 0' TERM INT

mkdir -p "$work/backends" "$work/models/$model/1"
cp -r "$site/pytriton/tritonserver/backends/python" "$work/backends/python"
cp "$site/pytriton/tritonserver/python_backend_stubs/$version/"* "$work/backends/python/"
cat > "$work/models/$model/config.pbtxt" <<CONFIG
name: "$model" backend: "python" max_batch_size: $largest
input [{ name: "pixel_values" data_type: TYPE_FP32 dims: [3, $size, $size] }]
output [{ name: "logits" data_type: TYPE_FP32 dims: [1000] }]
dynamic_batching { max_queue_delay_microseconds: $delay $policy }
instance_group [{ count: 1 kind: KIND_CPU }]
CONFIG
cat > "$work/models/$model/1/model.py" <<PYTHON
import sys

sys.path.insert(0, "$site")
import numpy, timm, torch
import triton_python_backend_utils as triton


class TritonPythonModel:
    def initialize(self, args):
        torch.set_num_threads($threads)
        self.dtype = torch.$dtype
        self.model = timm.create_model("$model").eval().to(self.dtype)

    def execute(self, requests):
        batches = [triton.get_input_tensor_by_name(request, "pixel_values").as_numpy() for request in requests]
        with torch.inference_mode():
            pixels = torch.from_numpy(numpy.concatenate(batches)).to(self.dtype)
            logits = self.model(pixels).float().numpy()
        ends = numpy.cumsum([len(batch) for batch in batches])
        return [
            triton.InferenceResponse([triton.Tensor("logits", part)]) for part in numpy.split(logits, ends[:-1])
        ]
PYTHON
LD_LIBRARY_PATH="$site/nvidia_pytriton.libs" "$site/pytriton/tritonserver/bin/tritonserver" \
  --model-repository="$work/models" --backend-directory="$work/backends" \
  --http-address 127.0.0.1 --grpc-address 127.0.0.1 --metrics-address 127.0.0.1 \
  --http-port 18000 --grpc-port 18001 --metrics-port 18002 &
server=$!
wait "$server"
