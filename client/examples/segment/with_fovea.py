"""Of which class is each pixel of a picture? With Fovea's client: with_fovea.py HOST:PORT MODEL IMAGE [DRAWN.png], of the gRPC port

pip install ./client/python
"""

import sys

from fovea.client import Client

if len(sys.argv) < 4:
    sys.exit(__doc__)
address, model, file, *drawn = sys.argv[1:]
with Client(address, timeout=10) as client:
    answer = client.segment(model, [file])
segmented = answer.images[0]  # .class_map is a numpy array, [height, width]
for area in segmented.classes:
    print(f"{area.label}  {area.pixels} pixels")
for name in drawn:
    segmented.drawn(file).save(name)
