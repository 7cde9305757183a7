"""What is where in a picture? With Fovea's client: with_fovea.py HOST:PORT MODEL IMAGE [DRAWN.png], of the gRPC port

pip install ./client/python
"""

import sys

from fovea.client import Client

if len(sys.argv) < 4:
    sys.exit(__doc__)
address, model, file, *drawn = sys.argv[1:]
with Client(address, timeout=10) as client:
    answer = client.detect(model, [file], score_threshold=0.5)
found = answer.images[0]
for label, score, box in zip(found.labels, found.scores, found.boxes, strict=True):
    left, top, right, bottom = box  # in pixels of the picture
    print(f"{label}  {score:.3f}  {left:.1f} {top:.1f} {right:.1f} {bottom:.1f}")
for name in drawn:
    found.drawn(file).save(name)
