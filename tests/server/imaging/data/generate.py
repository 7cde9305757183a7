"""Writes the test images of this folder, each NAME.EXT with what must be decoded from it, NAME.EXT.rgb.

    .venv/bin/python tests/server/imaging/data/generate.py

Run it only to change the set: the files are committed, so that the tests do not depend on the Pillow that reads them.
JPEG and WebP are written and read by Pillow. PNG is written by hand, since Pillow writes neither interlaced nor
16-bit colour images, and what must be decoded follows from the rules of server/imaging/decode.h.
"""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

FOLDER = Path(__file__).parent
# No multiple of a block, of a byte of 1-bit samples, or of an interlacing pass.
HEIGHT, WIDTH = 23, 29
BACKGROUND = 255  # DecodeOptions' default, in all three channels


def picture() -> np.ndarray:
    """Smooth colours, an edge and some noise; not symmetric, so that no orientation looks like another."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    rgb = np.stack(
        [x * 255 / WIDTH, y * 255 / HEIGHT, 255 - (x + y) * 255 / (WIDTH + HEIGHT)], -1
    )
    rgb[3:9, 4:12] = [230, 40, 20]
    rgb += np.random.default_rng(1).normal(0, 6, rgb.shape)
    return rgb.round().clip(0, 255).astype(np.uint8)


def alpha_plane() -> np.ndarray:
    alpha = np.linspace(-60, 320, HEIGHT * WIDTH).reshape(HEIGHT, WIDTH)
    return alpha.round().clip(0, 255).astype(np.uint8)


def save(name: str, encoded: bytes, rgb: np.ndarray) -> None:
    assert rgb.dtype == np.uint8 and rgb.shape[2] == 3
    (FOLDER / name).write_bytes(encoded)
    (FOLDER / f"{name}.rgb").write_bytes(rgb.tobytes())


def over_background(rgb: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """By Pillow itself, whose rounding is the definition."""
    page = Image.new("RGB", (rgb.shape[1], rgb.shape[0]), (BACKGROUND,) * 3)
    page.paste(Image.fromarray(rgb), mask=Image.fromarray(alpha))
    return np.asarray(page)


def decoded(encoded: bytes) -> np.ndarray:
    image = Image.open(io.BytesIO(encoded))
    image.load()
    image = ImageOps.exif_transpose(image)
    if image.mode == "RGBA":
        rgba = np.asarray(image)
        return over_background(
            np.ascontiguousarray(rgba[..., :3]), np.ascontiguousarray(rgba[..., 3])
        )
    return np.asarray(image.convert("RGB"))


def encode(image: Image.Image, kind: str, **options) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def exif(orientation: int) -> bytes:
    """Little-endian TIFF with the orientation alone."""
    return b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)


def stored_for(upright: np.ndarray, orientation: int) -> np.ndarray:
    """What must be stored for `upright` to be seen under `orientation`: the inverse of EXIF's definition."""
    flips = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
    }
    swaps = {
        5: lambda a: a.swapaxes(0, 1),
        6: lambda a: np.rot90(a, 1),
        7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
        8: lambda a: np.rot90(a, -1),
    }
    return np.ascontiguousarray((flips | swaps)[orientation](upright))


# JPEG


def jpegs() -> None:
    image = Image.fromarray(picture())
    variants = {
        "baseline": {},
        "444": {"subsampling": 0},
        "422": {"subsampling": 1},
        "progressive": {"progressive": True},
        "restarts": {"restart_marker_rows": 1},
        "rgb": {"keep_rgb": True},  # no luminance: Adobe's transform 0
        "icc": {"icc_profile": b"not a profile" * 7},
    }
    for name, options in variants.items():
        encoded = encode(image, "JPEG", quality=85, **options)
        save(f"{name}.jpg", encoded, decoded(encoded))
    encoded = encode(image.convert("L"), "JPEG", quality=85)
    save("gray.jpg", encoded, decoded(encoded))
    for orientation in range(1, 9):
        stored = Image.fromarray(stored_for(picture(), orientation))
        encoded = encode(
            stored, "JPEG", quality=85, exif=b"Exif\0\0" + exif(orientation)
        )
        save(f"orientation_{orientation}.jpg", encoded, decoded(encoded))

    rgb = picture().astype(int)
    black = 255 - rgb.max(-1)
    inks = np.concatenate([255 - rgb - black[..., None], black[..., None]], -1).astype(
        np.uint8
    )
    encoded = encode(
        Image.frombytes("CMYK", (WIDTH, HEIGHT), inks.tobytes()), "JPEG", quality=95
    )
    save("cmyk.jpg", encoded, decoded(encoded))
    # YCCK is the YCbCr of what the inks in the file leave of 255, and Adobe's files hold inks inverted: of the inks
    # themselves. Pillow inverts all four when it writes.
    ycc = np.asarray(
        Image.fromarray(np.ascontiguousarray(inks[..., :3])).convert("YCbCr")
    )
    in_file = np.concatenate([ycc, 255 - inks[..., 3:]], -1)
    encoded = bytearray(
        encode(
            Image.frombytes("CMYK", (WIDTH, HEIGHT), (255 - in_file).tobytes()),
            "JPEG",
            quality=95,
        )
    )
    adobe = encoded.index(b"Adobe")
    encoded[adobe + 11] = 2  # the colour transform
    save("ycck.jpg", bytes(encoded), decoded(bytes(encoded)))


# PNG

GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
PASSES = [
    (0, 0, 8, 8),
    (0, 4, 8, 8),
    (4, 0, 8, 4),
    (0, 2, 4, 4),
    (2, 0, 4, 2),
    (0, 1, 2, 2),
    (1, 0, 2, 1),
]


def chunk(kind: bytes, data: bytes) -> bytes:
    return (
        struct.pack(">I", len(data))
        + kind
        + data
        + struct.pack(">I", zlib.crc32(kind + data))
    )


def packed_rows(samples: np.ndarray, depth: int) -> bytes:
    """Rows of [height, width, components] with filter type 0."""
    out = b""
    for row in samples.reshape(samples.shape[0], -1):
        if depth == 16:
            data = row.astype(">u2").tobytes()
        else:
            bits = (row[:, None] >> np.arange(depth - 1, -1, -1)) & 1
            data = np.packbits(bits.astype(np.uint8).ravel()).tobytes()
        out += b"\0" + data
    return out


def png(
    samples: np.ndarray,
    color_type: int,
    depth: int,
    interlaced: bool,
    extra: bytes = b"",
) -> bytes:
    height, width = samples.shape[:2]
    if interlaced:
        passes = [samples[y::dy, x::dx] for y, x, dy, dx in PASSES]
        raw = b"".join(packed_rows(p, depth) for p in passes if p.size)
    else:
        raw = packed_rows(samples, depth)
    header = struct.pack(
        ">IIBBBBB", width, height, depth, color_type, 0, 0, int(interlaced)
    )
    compressed = zlib.compress(raw, 9)
    half = len(compressed) // 2  # two IDAT chunks
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + extra
        + chunk(b"IDAT", compressed[:half])
        + chunk(b"IDAT", compressed[half:])
        + chunk(b"IEND", b"")
    )


def to_8_bits(samples: np.ndarray, depth: int) -> np.ndarray:
    return np.floor(samples.astype(float) * 255 / (2**depth - 1) + 0.5).astype(np.uint8)


def put(
    name: str,
    samples: np.ndarray,
    color_type: int,
    depth: int,
    expected: np.ndarray,
    extra: bytes = b"",
) -> None:
    for interlaced, suffix in ((False, ""), (True, "_interlaced")):
        encoded = png(samples, color_type, depth, interlaced, extra)
        save(f"{name}{suffix}.png", encoded, expected)


def hide(samples: np.ndarray, key: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """`shown` with the background where `samples` are the transparent ones."""
    hidden = (samples == key).all(-1, keepdims=True)
    return np.where(hidden, BACKGROUND, shown).astype(np.uint8)


def put_gray(gray: np.ndarray, depth: int) -> None:
    shades = to_8_bits(gray, depth).repeat(3, -1)
    put(f"gray_{depth}", gray, GRAY, depth, shades)
    key = gray[5, 7]
    extra = chunk(b"tRNS", struct.pack(">H", *key))
    put(f"gray_{depth}_key", gray, GRAY, depth, hide(gray, key, shades), extra)


def put_color(rgb: np.ndarray, gray: np.ndarray, alpha: np.ndarray, depth: int) -> None:
    colors, shades = to_8_bits(rgb, depth), to_8_bits(gray, depth).repeat(3, -1)
    opacity = to_8_bits(alpha, depth)[..., 0]
    put(f"rgb_{depth}", rgb, RGB, depth, colors)
    key = rgb[11, 13]
    extra = chunk(b"tRNS", struct.pack(">HHH", *key))
    put(f"rgb_{depth}_key", rgb, RGB, depth, hide(rgb, key, colors), extra)
    with_alpha = np.concatenate([rgb, alpha], -1)
    put(f"rgba_{depth}", with_alpha, RGBA, depth, over_background(colors, opacity))
    with_alpha = np.concatenate([gray, alpha], -1)
    shown = over_background(shades, opacity)
    put(f"gray_alpha_{depth}", with_alpha, GRAY_ALPHA, depth, shown)


def put_palette(index: np.ndarray, depth: int) -> None:
    random = np.random.default_rng(depth)
    palette = random.integers(0, 256, (2**depth, 3), dtype=np.uint8)
    colors = palette[index[..., 0]]
    entries = chunk(b"PLTE", palette.tobytes())
    put(f"palette_{depth}", index, PALETTE, depth, colors, entries)
    # The last entry has none: it is opaque.
    opacity = random.integers(0, 256, 2**depth - 1, dtype=np.uint8)
    shown = over_background(colors, np.append(opacity, np.uint8(255))[index[..., 0]])
    extra = entries + chunk(b"tRNS", opacity.tobytes())
    put(f"palette_{depth}_alpha", index, PALETTE, depth, shown, extra)


def to_16_bits(samples: np.ndarray) -> np.ndarray:
    """Values that round to `samples`, spread over everything that does."""
    noise = np.random.default_rng(2).integers(-128, 129, samples.shape)
    return (samples.astype(int) * 257 + noise).clip(0, 65535).astype(np.uint16)


def pngs() -> None:
    rgb = picture()
    gray, alpha = rgb[..., 1:2], alpha_plane()[..., None]
    for depth in (1, 2, 4, 8):
        put_gray(gray >> (8 - depth), depth)
        put_palette(gray >> (8 - depth), depth)
    put_gray(to_16_bits(gray), 16)
    put_color(rgb, gray, alpha, 8)
    put_color(to_16_bits(rgb), to_16_bits(gray), to_16_bits(alpha), 16)

    for orientation in range(1, 9):
        extra = chunk(b"eXIf", exif(orientation))
        save(
            f"orientation_{orientation}.png",
            png(stored_for(rgb, orientation), RGB, 8, False, extra),
            rgb,
        )
    bad_profile = chunk(b"iCCP", b"profile\0\0" + b"not deflated") + chunk(
        b"gAMA", struct.pack(">I", 3)
    )
    save("icc.png", png(rgb, RGB, 8, False, bad_profile), rgb)
    frames = [Image.fromarray(rgb), Image.fromarray(rgb[::-1])]
    out = io.BytesIO()
    frames[0].save(out, "PNG", save_all=True, append_images=frames[1:])
    (FOLDER / "animated.png").write_bytes(out.getvalue())


# WebP


def webps() -> None:
    rgb = picture()
    opaque = Image.fromarray(rgb)
    transparent = Image.fromarray(np.concatenate([rgb, alpha_plane()[..., None]], -1))
    variants = {
        "lossy": encode(opaque, "WEBP", quality=80),
        "lossless": encode(opaque, "WEBP", lossless=True),
        "lossy_alpha": encode(transparent, "WEBP", quality=80),
        "lossless_alpha": encode(transparent, "WEBP", lossless=True, exact=True),
        "icc": encode(opaque, "WEBP", lossless=True, icc_profile=b"not a profile" * 7),
        "tiny": encode(Image.new("RGB", (1, 1), (10, 200, 30)), "WEBP", lossless=True),
    }
    for name, encoded in variants.items():
        save(f"{name}.webp", encoded, decoded(encoded))
    for orientation in range(1, 9):
        stored = Image.fromarray(stored_for(rgb, orientation))
        encoded = encode(stored, "WEBP", lossless=True, exif=exif(orientation))
        save(f"orientation_{orientation}.webp", encoded, rgb)
    (FOLDER / "animated.webp").write_bytes(
        encode(
            opaque,
            "WEBP",
            save_all=True,
            append_images=[Image.fromarray(rgb[::-1])],
            lossless=True,
        )
    )


if __name__ == "__main__":
    for old in FOLDER.iterdir():
        if old.suffix in {".jpg", ".png", ".webp", ".rgb"}:
            old.unlink()
    jpegs()
    pngs()
    webps()
