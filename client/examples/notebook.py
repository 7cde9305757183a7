"""A model in your own process, without a server: notebook.py FOLDER IMAGE, cell by cell in an editor or as a program

pip install ./client/python
"""

# %% What a model of a folder says of a picture, with another attention over its weights
import sys

import fovea
import timm
import torch

folder, picture = sys.argv[1:]
for attention in (None, "knn:k=0.5", "knn:k=8"):
    model = fovea.Model(folder, attention=attention)
    shown = model.predict([picture])[0]
    print(f"{model.attention}: {shown.labels[0]} {shown.confidences[0]:.3f}")

# %% Where its heads look, by layer: KVT's measures
pixels = model.pixels([picture])
for layer in model.measures(pixels):
    print(f"{layer.layer}: {layer.nonlocality.mean().item():.2f} patches away")
weights = model.attention_maps(pixels)[
    "blocks.0.attn"
].weights  # [1, heads, tokens, tokens]
kept = int((weights > 0).sum(-1).max())
print(f"a query keeps {kept} of {weights.shape[-1]} keys")

# %% Training it further: its parameters are PyTorch's
model = fovea.Model(folder, attention="knn:k=8", prepared=False)
steps = torch.optim.AdamW(model.parameters().values(), 1e-3)
wanted = torch.tensor([0])
for _ in range(3):
    loss = torch.nn.functional.cross_entropy(model(pixels)["logits"], wanted)
    steps.zero_grad()
    loss.backward()
    steps.step()
    print(f"loss {loss.item():.3f}")

# %% Fovea's attention in a model of timm's, in your own training script
vit = timm.create_model("vit_tiny_patch16_224", num_classes=2, img_size=64, depth=2)
vit, layers = fovea.swap_attention(vit, "knn:k=0.5")
print("swapped:", ", ".join(layers))
vit(torch.randn(4, 3, 64, 64)).square().mean().backward()
