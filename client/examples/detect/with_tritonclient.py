"""What is where in a picture? With NVIDIA's client: with_tritonclient.py HOST:PORT MODEL IMAGE, of the gRPC port

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
answer = triton.InferenceServerClient(address).infer(model, [image])
# As many as the model gives at most; `counts` says how many there are, the surest first.
found = int(answer.as_numpy("counts")[0])
boxes = answer.as_numpy("boxes")[0, :found]
scores = answer.as_numpy("scores")[0, :found]
classes = answer.as_numpy("labels")[0, :found]
for box, score, number in zip(boxes, scores, classes, strict=True):
    if score >= 0.5:
        # In pixels of the picture.
        left, top, right, bottom = box
        print(
            f"class {number}  {score:.3f}  {left:.1f} {top:.1f} {right:.1f} {bottom:.1f}"
        )
