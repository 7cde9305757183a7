"""What imaging makes of a file is, bit for bit, what Pillow 13, torchvision and timm make of it.

The design asks for one level of difference when shrinking and two when enlarging; equality is what there is, so
equality is what is held.
"""

from __future__ import annotations

import os
import pathlib
import subprocess

import numpy as np
import pytest
import timm.data
import torchvision
from PIL import ExifTags, Image, ImageOps

ROOT = pathlib.Path(__file__).resolve().parents[3]
DUMP = ROOT / os.environ.get("FOVEA_BUILD", "build/release") / "tests" / "imaging_dump"


def dump(*lines: str) -> bytes:
    done = subprocess.run(
        [DUMP],
        check=False,
        input="\n".join(lines).encode(),
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def picture(height: int, width: int) -> np.ndarray:
    """Waves, edges and noise: every frequency, and values clipped at both ends."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [
        127 + 140 * np.sin(x / 7 + y / 11),
        127 + 140 * np.cos(x / 5 - y / 13),
        (x * 3 + y * 5) % 256,
    ]
    noise = np.random.default_rng(height * 7919 + width).normal(
        0, 25, (height, width, 3)
    )
    return (np.stack(waves, -1) + noise).round().clip(0, 255).astype(np.uint8)


SIZES = [(375, 500), (500, 375), (224, 224), (256, 256), (97, 61), (33, 47), (1, 1)]
SIZES += [
    (1, 9),
    (9, 1),
    (223, 225),
    (768, 501),
    (601, 799),
    (20, 1999),
    (640, 16),
    (400, 200),
]
# Input size, crop_pct, crop_mode of timm's configurations, and sizes of our own.
SPECS = [
    ((224, 224), 0.875, "center"),
    ((224, 224), 0.9, "center"),
    ((224, 224), 0.95, "center"),
    ((224, 224), 1.0, "center"),
    ((64, 64), 0.875, "center"),
    ((384, 384), 1.0, "squash"),
    ((256, 192), 0.9, "center"),
    ((100, 333), 0.95, "center"),
    ((31, 77), 1.0, "squash"),
    ((224, 224), 0.875, "squash"),
    ((100, 333), 0.9, "squash"),
]


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("size", "crop", "mode"), SPECS, ids=str)
def test_preprocessing_equals_timms(
    tmp_path: pathlib.Path, size, crop, mode, interpolation
):
    transform = timm.data.create_transform(
        (3, *size),
        interpolation=interpolation,
        crop_pct=crop,
        crop_mode=mode,
        normalize=False,
    )
    ours = "squash" if mode == "squash" else "shortest"
    lines, expected = [], []
    for height, width in SIZES:
        file = tmp_path / f"{height}x{width}.png"
        image = Image.fromarray(picture(height, width))
        image.save(file, compress_level=1)
        lines.append(
            f"preprocess {size[0]} {size[1]} {ours} {crop} {interpolation} exact {file}"
        )
        expected.append(transform(image).permute(1, 2, 0).numpy())
    actual = np.frombuffer(dump(*lines), np.uint8).reshape(-1, *size, 3)
    for shape, got, wanted in zip(SIZES, actual, expected, strict=True):
        difference = np.abs(got.astype(int) - wanted)
        message = f"{shape}: {(difference != 0).mean():.3%} of the values differ, by {difference.max()} at most"
        assert difference.max() == 0, message


def test_preprocessing_equals_torchvisions_resize_and_crop(tmp_path: pathlib.Path):
    transform = torchvision.transforms.Compose(
        [torchvision.transforms.Resize(256), torchvision.transforms.CenterCrop(224)]
    )
    lines, expected = [], []
    for height, width in SIZES[:4]:
        file = tmp_path / f"{height}x{width}.png"
        image = Image.fromarray(picture(height, width))
        image.save(file, compress_level=1)
        lines.append(f"preprocess 224 224 shortest 0.875 bilinear exact {file}")
        expected.append(np.asarray(transform(image)))
    actual = np.frombuffer(dump(*lines), np.uint8).reshape(-1, 224, 224, 3)
    assert np.array_equal(actual, np.stack(expected))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_fast_decoding_equals_pillows_draft_and_a_resize_of_its_box(
    tmp_path: pathlib.Path, orientation: int
):
    """The definition of fast_decode: the model's own resize of what Image.draft leaves of the picture."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    lines, expected = [], []
    for height, width, scale in [
        (375, 500, 1),
        (512, 512, 2),
        (1023, 700, 2),
        (1031, 1402, 4),
        (2053, 2500, 8),
    ]:
        for options in (
            {"quality": 90},
            {"quality": 75, "subsampling": 0, "progressive": True},
        ):
            file = tmp_path / f"{height}x{width}_{options['quality']}.jpg"
            Image.fromarray(picture(height, width)).save(file, exif=exif, **options)
            lines.append(f"preprocess 112 112 squash 0.875 bicubic fast {file}")
            image = Image.open(file)
            image.draft(None, (width // scale, height // scale))
            assert image.size == (-(-width // scale), -(-height // scale))
            across, down = width / scale, height / scale
            upright = ImageOps.exif_transpose(image)
            if orientation >= 5:
                across, down = down, across
            left = upright.width - across if orientation in (2, 3, 6, 7) else 0
            top = upright.height - down if orientation in (3, 4, 7, 8) else 0
            resized = upright.resize(
                (128, 128),
                Image.Resampling.BICUBIC,
                box=(left, top, left + across, top + down),
            )
            expected.append(np.asarray(resized)[8:120, 8:120])
    actual = np.frombuffer(dump(*lines), np.uint8).reshape(-1, 112, 112, 3)
    for line, got, wanted in zip(lines, actual, expected, strict=True):
        assert np.array_equal(got, wanted), line


def decoded(
    files: list[pathlib.Path], sizes: list[tuple[int, int]]
) -> list[np.ndarray]:
    pixels = np.frombuffer(dump(*(f"decode {file}" for file in files)), np.uint8)
    ends = np.cumsum([height * width * 3 for height, width in sizes])
    assert pixels.size == ends[-1]
    parts = np.split(pixels, ends[:-1])
    return [part.reshape(*size, 3) for part, size in zip(parts, sizes, strict=True)]


def save_all(folder: pathlib.Path, suffix: str, sizes, options) -> list[pathlib.Path]:
    files = [folder / f"{height}x{width}{suffix}" for height, width in sizes]
    for file, size in zip(files, sizes, strict=True):
        Image.fromarray(picture(*size)).save(file, **options)
    return files


JPEGS = [
    {"quality": quality, "subsampling": how}
    for quality in (30, 75, 95)
    for how in (0, 1, 2)
]
JPEGS += [
    {"quality": 85, "progressive": True},
    {"quality": 100},
    {"quality": 85, "optimize": True},
]


@pytest.mark.parametrize("options", JPEGS, ids=str)
def test_jpeg_pixels_equal_pillows_and_torchvisions(tmp_path: pathlib.Path, options):
    sizes = [(375, 500), (97, 61), (16, 16), (17, 33), (1, 1), (1, 40), (801, 3)]
    files = save_all(tmp_path, ".jpg", sizes, options)
    for file, actual in zip(files, decoded(files, sizes), strict=True):
        assert np.array_equal(actual, np.asarray(Image.open(file))), file.name
        data = torchvision.io.read_file(str(file))
        theirs = torchvision.io.decode_jpeg(data, mode=torchvision.io.ImageReadMode.RGB)
        assert np.array_equal(actual, theirs.permute(1, 2, 0).numpy()), file.name


@pytest.mark.parametrize(
    "options", [{"quality": 80}, {"quality": 20}, {"lossless": True}], ids=str
)
def test_webp_pixels_equal_pillows(tmp_path: pathlib.Path, options):
    sizes = [(375, 500), (97, 61), (17, 33), (1, 1)]
    files = save_all(tmp_path, ".webp", sizes, options)
    for file, actual in zip(files, decoded(files, sizes), strict=True):
        assert np.array_equal(actual, np.asarray(Image.open(file))), file.name
