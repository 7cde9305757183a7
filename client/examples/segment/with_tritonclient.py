"""Of which class is each pixel of a picture? With NVIDIA's client: with_tritonclient.py HOST:PORT MODEL IMAGE, of the gRPC port

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
wanted = triton.InferRequestedOutput("class_map")
answer = triton.InferenceServerClient(address).infer(model, [image], outputs=[wanted])
class_map = answer.as_numpy("class_map")[0]  # [height, width] of the picture
numbers, pixels = np.unique(class_map, return_counts=True)
for i in np.argsort(-pixels):
    print(f"class {numbers[i]}  {pixels[i]} pixels")
