"""What does a picture show? With Fovea's client: with_fovea.py HOST:PORT MODEL IMAGE, of the gRPC port

pip install ./client/python
"""

import sys

from fovea.client import Client

if len(sys.argv) != 4:
    sys.exit(__doc__)
address, model, file = sys.argv[1:]
with Client(address, timeout=10) as client:
    answer = client.classify(model, [file], top_k=3)
shown = answer.images[0]
for label, confidence in zip(shown.labels, shown.confidences, strict=True):
    print(f"{label}  {confidence:.3f}")
milliseconds = 1000 * answer.receipt.seconds["compute"]
print(f"computed in {milliseconds:.3f} ms with {answer.attention}")
