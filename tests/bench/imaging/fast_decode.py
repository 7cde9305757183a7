"""What fast_decode changes in pixels and in answers, by how much larger than its target a JPEG is decoded at least.

    .venv/bin/python tests/bench/imaging/fast_decode.py [--build build/release] [--model model_zoo/demo/shapes] [--pictures 1000]

Prints differences from the exact way in levels of 256, and how often the model's best class is the same on pictures of its own
kind that are eight times as large, where each margin leaves least. The server has a margin of 2 (server/imaging/jpeg_scale.cc). Pixels are made by Pillow,
whose draft mode and resize are the server's to the bit (tests/server/imaging/test_pillow_parity.py).
"""

from __future__ import annotations

import argparse
import io
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np
import torch
from PIL import Image, ImageDraw

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "bench"), str(ROOT / "client" / "python")]
from photograph import photograph

MARGINS = (1.0, 1.5, 2.0)


def scale_for(
    size: tuple[int, int], resized: tuple[int, int], margin: float, least: int = 8
) -> int:
    """1, 2, 4 or 8; sizes are width, height."""
    return max(
        scale
        for scale in (1, 2, 4, 8)
        if scale == 1
        or all(
            side >= scale * max(margin * to, least)
            for side, to in zip(size, resized, strict=True)
        )
    )


def resized(
    jpeg: bytes, to: tuple[int, int], filter: Image.Resampling, scale: int
) -> np.ndarray:
    image = Image.open(io.BytesIO(jpeg))
    width, height = image.size
    if scale > 1:
        image.draft(None, (width // scale, height // scale))
    box = (0, 0, width / scale, height / scale)
    return np.asarray(image.convert("RGB").resize(to, filter, box=box))


def as_jpeg(image: Image.Image, quality: int) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def edges(width: int, height: int) -> Image.Image:
    """Sharp shapes and thin lines over each other."""
    random = np.random.default_rng(1)
    image = Image.new("RGB", (width, height), (90, 120, 60))
    draw = ImageDraw.Draw(image)
    for number in range(150):
        x, y = (int(random.integers(side)) for side in (width, height))
        wide = int(random.integers(10, width // 4))
        high = int(wide * random.uniform(0.3, 1))
        colour = tuple(int(level) for level in random.integers(0, 256, 3))
        shape = draw.rectangle if number % 2 else draw.ellipse
        shape([x, y, x + wide, y + high], fill=colour)
        ends = [x, y, int(random.integers(width)), int(random.integers(height))]
        draw.line(ends, fill=colour, width=int(random.integers(1, 9)))
    return image


def print_pixels() -> None:
    for width, height in ((4000, 3000), (2048, 1536)):
        to = (256 * width // height, 256)
        for name, jpeg in (
            ("photograph", as_jpeg(photograph(width, height), 85)),
            ("edges", as_jpeg(edges(width, height), 90)),
        ):
            exact = resized(jpeg, to, Image.Resampling.BICUBIC, 1).astype(int)
            for margin in MARGINS:
                scale = scale_for((width, height), to, margin)
                fast = resized(jpeg, to, Image.Resampling.BICUBIC, scale)
                apart = np.abs(fast - exact)
                print(
                    f"{width} x {height} {name:10}  margin {margin:3}: 1/{scale}  at most {apart.max():3d}  "
                    f"mean {apart.mean():.2f}  999 of 1000 within {np.quantile(apart, 0.999):.0f}"
                )


def pictures_of(folder: pathlib.Path) -> Iterator[tuple[str, Image.Image]]:
    for file in sorted(folder.glob("*/*.png")):
        with Image.open(file) as image:
            yield file.parent.name, image.convert("RGB")


def print_answers(model_folder: pathlib.Path, build: pathlib.Path, count: int) -> None:
    import fovea

    model = fovea.Model(model_folder)
    own = model.input.sizes[0][0]
    # The margins of 1 and 2 leave hardly more than themselves; no multiple of a block's side.
    side = 8 * own + 3
    logits: dict[float, list[np.ndarray]] = {margin: [] for margin in (0, *MARGINS)}
    shapes = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [build / "bin" / "fovea-train", "--write-shapes", folder]
            + ["--shape-count", str(count), "--image-size", str(side)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for shape, image in pictures_of(pathlib.Path(folder)):
            shapes.append(shape)
            jpeg = as_jpeg(image, 85)
            place = model.input.place(side, side)
            to = (place.resized[1], place.resized[0])
            filter = Image.Resampling[model.input.interpolation]
            for margin, found in logits.items():
                scale = scale_for((side, side), to, margin) if margin else 1
                pixels = resized(jpeg, to, filter, scale)
                taken = model.input.pixels(Image.fromarray(pixels), place)
                with torch.no_grad():
                    outputs = model(torch.from_numpy(taken)[None])
                found.append(outputs["logits"][0].numpy())
    truth = np.array([model.labels.index(shape) for shape in shapes])
    best = {margin: np.stack(found).argmax(1) for margin, found in logits.items()}
    exact = np.stack(logits[0])
    print(
        f"\n{model.name}, {len(truth)} pictures of {side} x {side}: {(best[0] == truth).mean():.2%} right"
    )
    for margin in MARGINS:
        scale = scale_for((side, side), (own, own), margin)
        apart = np.abs(np.stack(logits[margin]) - exact)
        print(
            f"margin {margin:3}: 1/{scale}  the same best class {(best[margin] == best[0]).mean():.2%}, "
            f"{(best[margin] == truth).mean():.2%} right, logits apart {apart.mean():.3f} on average"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--build", type=pathlib.Path, default="build/release")
    arguments.add_argument(
        "--model", type=pathlib.Path, default=ROOT / "model_zoo/demo/shapes"
    )
    arguments.add_argument("--pictures", type=int, default=1000)
    options = arguments.parse_args()
    print_pixels()
    print_answers(options.model, ROOT / options.build, options.pictures)


if __name__ == "__main__":
    main()
