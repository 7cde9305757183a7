"""What does a picture show? With NVIDIA's client: with_tritonclient.py HOST:PORT MODEL IMAGE, of the gRPC port

pip install 'tritonclient[grpc]'
"""

import pathlib
import sys

import numpy as np
import tritonclient.grpc as triton

if len(sys.argv) != 4:
    sys.exit(__doc__)
address, model, file = sys.argv[1:]
image = triton.InferInput("image", [1, 1], "BYTES")
image.set_data_from_numpy(np.array([[pathlib.Path(file).read_bytes()]], object))
# The three best classes as text, in place of the logits.
best = triton.InferRequestedOutput("logits", class_count=3)
answer = triton.InferenceServerClient(address).infer(model, [image], outputs=[best])
for text in answer.as_numpy("logits").flatten():
    logit, index, label = text.decode().split(":", 2)
    print(f"{label}  logit {float(logit):.3f}, class {index}")
