"""Writes the test images of this folder, each NAME.EXT with what must be decoded from it, NAME.EXT.rgb.

    .venv/bin/python tests/server/imaging/data/generate.py

Run it only to change the set: the files are committed, so that the tests do not depend on the Pillow that reads them.
PNG is written by hand, since Pillow writes neither interlaced nor 16-bit colour images, and what must be decoded
follows from the rules of server/imaging/decode.h. Everything else is written and read by Pillow, but for what it cannot
write.
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
    if image.mode.startswith("I;16"):
        return to_8_bits(np.asarray(image), 16)[..., None].repeat(3, -1)
    if image.mode in ("RGBA", "LA") or "transparency" in image.info:
        rgba = np.asarray(image.convert("RGBA"))
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
    save("animated.png", out.getvalue(), rgb)  # the first frame


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
    frames = {"append_images": [Image.fromarray(rgb[::-1])], "lossless": True}
    encoded = encode(opaque, "WEBP", save_all=True, **frames)
    save("animated.webp", encoded, decoded(encoded))
    encoded = encode(
        transparent, "WEBP", save_all=True, append_images=[opaque], quality=80
    )
    save("animated_alpha.webp", encoded, decoded(encoded))


# What honest programs have written against the rules, and every reader forgives.


def odd_jpegs() -> None:
    image = Image.fromarray(picture())
    jpeg = encode(image, "JPEG", quality=85)
    restarts = encode(image, "JPEG", quality=85, restart_marker_blocks=1)
    progressive = encode(image, "JPEG", quality=85, progressive=True)
    tables = jpeg.index(b"\xff\xdb")

    def at(position: int, junk: bytes, file: bytes = jpeg) -> bytes:
        return file[:position] + junk + file[position:]

    def segment(marker: int, body: bytes) -> bytes:
        return b"\xff" + bytes([marker]) + struct.pack(">H", len(body) + 2) + body

    first_restart = restarts.index(b"\xff\xd0")
    jfif_major = jpeg.index(b"JFIF") + 5
    scan = jpeg.index(b"\xff\xda")
    spectral_end = scan + 2 + struct.unpack(">H", jpeg[scan + 2 : scan + 4])[0] - 2
    adobe = segment(0xEE, b"Adobe\0\x64\0\0\0\0\7")
    without_jfif = jpeg[:2] + jpeg[20:]
    for name, encoded in {
        "before_end": at(-2 % len(jpeg), bytes(12)),
        "one_before_end": at(-2 % len(jpeg), b"\x7f"),
        "before_end_of_progressive": at(-2 % len(progressive), bytes(9), progressive),
        "before_restart": at(first_restart, bytes(6), restarts),
        "between_segments": at(tables, b"\0\0"),
        "stuffing_between_segments": at(tables, b"\xff\0\0\0"),
        "short_segment": at(2, segment(0xED, b"Photoshop 3.0\0") + b"\4\6\0\0\1"),
        "short_adobe": at(
            2, segment(0xEE, b"Adobe\0\x64\0\0\0\0") + b"\1", without_jfif
        ),
        "comment_of_length_0": at(2, b"\xff\xfe\0\0"),
        "comment_of_length_1": at(2, b"\xff\xfe\0\1"),
        "adobe_transform": at(2, adobe, without_jfif),
        "jfif_2": jpeg[:jfif_major] + b"\2" + jpeg[jfif_major + 1 :],
        "odd_scan": jpeg[:spectral_end] + b"\0" + jpeg[spectral_end + 1 :],
    }.items():
        expected = decoded(encoded)
        assert (
            np.abs(expected.astype(int) - decoded(jpeg)).max() == 0 or "restart" in name
        )
        save(f"odd_{name}.jpg", encoded, expected)


def odd_pngs() -> None:
    rgb = picture()
    index = rgb[..., 1:2] >> 6
    gray = rgb[..., 1:2]
    palette = np.random.default_rng(3).integers(0, 256, (4, 3), dtype=np.uint8)
    colors = palette[index[..., 0]]
    entries = chunk(b"PLTE", palette.tobytes())
    opacity = chunk(b"tRNS", b"\0\x80")
    shown = over_background(
        colors, np.array([0, 128, 255, 255], np.uint8)[index[..., 0]]
    )
    key = gray[5, 7]
    transparent = chunk(b"tRNS", struct.pack(">H", *key))
    hidden = hide(gray, key, gray.repeat(3, -1))
    rgba = np.concatenate([rgb, alpha_plane()[..., None]], -1)
    flat = over_background(rgb, alpha_plane())
    plain = png(rgb, RGB, 8, False)
    data = plain.rindex(b"IDAT")
    for name, encoded, expected in [
        ("palette_in_gray", png(gray, GRAY, 8, False, entries), gray.repeat(3, -1)),
        ("palette_of_colours_too_long", png(rgb, RGB, 8, False, chunk(b"PLTE", bytes(3 * 257))), rgb),
        ("palette_twice", png(index, PALETTE, 2, False, chunk(b"PLTE", bytes(12)) + entries), colors),
        ("key_in_rgba", png(rgba, RGBA, 8, False, chunk(b"tRNS", bytes(6))), flat),
        ("key_twice", png(gray, GRAY, 8, False, chunk(b"tRNS", b"\0\0") + transparent), hidden),
        ("key_too_long", png(gray, GRAY, 8, False, chunk(b"tRNS", struct.pack(">HH", *key, 9))), hidden),
        ("alpha_too_long", png(index, PALETTE, 2, False, entries + chunk(b"tRNS", b"\0\x80\xff\xff\1\1")), shown),
        ("alpha_empty", png(index, PALETTE, 2, False, entries + chunk(b"tRNS", b"")), colors),
        ("alpha_before_palette", png(index, PALETTE, 2, False, opacity + entries), shown),
        ("one_frame", plain[:33] + chunk(b"acTL", struct.pack(">II", 1, 0)) + plain[33:], rgb),
        ("no_end", plain[:-12], rgb),
        ("half_an_end", plain[:-5], rgb),
        ("checksum_of_end", plain[:-4] + bytes(4), rgb),
        ("checksum_of_pixels", plain[:-16] + bytes(4) + plain[-12:], rgb),
        ("no_checksum_in_pixels", plain[: data - 4] + chunk(b"IDAT", plain[data + 4 : -20]) + plain[-12:], rgb),
    ]:  # fmt: skip
        save(f"odd_{name}.png", encoded, expected)
    rows = np.tile(
        np.random.default_rng(1).integers(0, 256, (4, 180, 3), np.uint8), (3, 1, 1)
    )
    wide = png(rows, RGB, 8, False)
    start = wide.index(b"IDAT") + 4
    small_window = bytes([0x18, 31 - 0x1800 % 31])
    first = wide[start:-12].split(b"IDAT")[0][:-8]
    encoded = (
        wide[: start - 8]
        + chunk(b"IDAT", small_window + first[2:])
        + wide[start + len(first) + 4 :]
    )
    save("odd_window.png", encoded, rows)


def odd_webps() -> None:
    still = encode(Image.fromarray(picture()), "WEBP", lossless=True)[12:]

    def riff(kind: bytes, data: bytes) -> bytes:
        return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)

    def u24(number: int) -> bytes:
        return struct.pack("<I", number)[:3]

    sides = u24(WIDTH + 9) + u24(HEIGHT + 13)
    frame = u24(2) + u24(3) + u24(WIDTH - 1) + u24(HEIGHT - 1) + u24(100) + b"\0"
    body = riff(b"VP8X", b"\2\0\0\0" + sides) + riff(b"ANIM", bytes(6))
    encoded = riff(b"RIFF", b"WEBP" + body + riff(b"ANMF", frame + still))
    save("odd_one_frame.webp", encoded, decoded(encoded))


# GIF, BMP, TIFF, AVIF


def gifs() -> None:
    image = Image.fromarray(picture())
    adaptive = image.quantize(50)
    still = encode(adaptive, "GIF", interlace=0)
    frames = {"save_all": True, "append_images": [image.rotate(180).quantize(9)]}
    # A screen that is larger than the image, and one that is smaller.
    at = still.rindex(b"\x2c\0\0\0\0", 0, -HEIGHT)
    place = struct.pack("<HH", 5, 7)
    part = still[: at + 1] + place + still[at + 5 :]
    larger = part[:6] + struct.pack("<HH", WIDTH + 11, HEIGHT + 10) + part[10:]
    variants = {
        "plain": still,
        "interlaced": encode(adaptive, "GIF", interlace=1),
        "gray": encode(image.convert("L"), "GIF"),
        "key": encode(adaptive, "GIF", transparency=adaptive.getpixel((5, 5))),
        "animated": encode(adaptive, "GIF", **frames),
        "larger_screen": larger,
        "smaller_screen": part,
        "two": encode(image.convert("1"), "GIF"),
    }
    for name, encoded in variants.items():
        save(f"{name}.gif", encoded, decoded(encoded))


def bmp(
    bits: int, coding: int, rows: bytes, masks: bytes = b"", height: int = HEIGHT
) -> bytes:
    """With a header of 40 bytes, or with masks of 108."""
    size = 108 if masks else 40
    header = struct.pack(
        "<IiiHHIIiiII", size, WIDTH, height, 1, bits, coding, len(rows), 0, 0, 0, 0
    )
    header += masks.ljust(size - 40, b"\0")
    palette = (
        bytes(v for i in range(1 << bits) for v in (255 - i, i, i * 7 % 256, 0))
        if bits <= 8
        else b""
    )
    start = 14 + size + len(palette)
    return (
        b"BM"
        + struct.pack("<IHHI", start + len(rows), 0, 0, start)
        + header
        + palette
        + rows
    )


def bmps() -> None:
    image = Image.fromarray(picture())
    for name, mode in {
        "1": "1",
        "8_gray": "L",
        "8": "P",
        "24": "RGB",
        "32": "RGBA",
    }.items():
        encoded = encode(image.convert(mode), "BMP")
        save(f"bits_{name}.bmp", encoded, decoded(encoded))
    random = np.random.default_rng(6)

    def noise(row_bytes: int) -> bytes:
        return random.integers(0, 256, HEIGHT * row_bytes, dtype=np.uint8).tobytes()

    runs = bytes([3, 7, 0, 5, 1, 2, 3, 4, 5, 0, WIDTH - 8, 9, 0, 0])
    nibbles = bytes([3, 0x21, 0, 4, 0x12, 0x34, WIDTH - 7, 0x56, 0, 0])
    for name, encoded in {
        "bits_4": bmp(4, 0, noise(16)),
        "bits_15": bmp(16, 0, noise(60)),
        "bits_16": bmp(16, 3, noise(60), struct.pack("<III", 0xF800, 0x7E0, 0x1F)),
        "bits_32_alpha": bmp(32, 3, noise(116), struct.pack("<IIII", 0xFF0000, 0xFF00, 0xFF, 0xFF << 24)),
        "runs_8": bmp(8, 1, runs * 9 + bytes([WIDTH, 5, 0, 0]) * (HEIGHT - 9) + b"\0\1"),
        "runs_4": bmp(4, 2, nibbles * HEIGHT + b"\0\1"),
        "top_down": bmp(24, 0, noise(88), height=-HEIGHT),
    }.items():  # fmt: skip
        save(f"{name}.bmp", encoded, decoded(encoded))


def tiff(
    samples: np.ndarray,
    photometric: int,
    order: str,
    tile: int = 0,
    planar: bool = False,
) -> bytes:
    """Uncompressed, in strips of 5 rows or in tiles, as Pillow does not write them."""
    height, width, count = samples.shape
    bits = samples.dtype.itemsize * 8
    data = samples.astype(samples.dtype.newbyteorder(order))
    planes = [data[..., i : i + 1] for i in range(count)] if planar else [data]
    blocks = []
    for plane in planes:
        if not tile:
            blocks += [plane[top : top + 5].tobytes() for top in range(0, height, 5)]
            continue
        for top in range(0, height, tile):
            for left in range(0, width, tile):
                part = plane[top : top + tile, left : left + tile]
                fill = [(0, tile - part.shape[0]), (0, tile - part.shape[1]), (0, 0)]
                blocks.append(np.pad(part, fill).tobytes())
    sizes = [len(block) for block in blocks]
    starts = [8 + sum(sizes[:i]) for i in range(len(blocks))]
    tags = [
        (256, [width]), (257, [height]), (258, [bits] * count), (259, [1]),
        (262, [photometric]), (277, [count]), (284, [2 if planar else 1]),
        *([(322, [tile]), (323, [tile]), (324, starts), (325, sizes)] if tile else
          [(273, starts), (278, [5]), (279, sizes)]),
    ]  # fmt: skip
    if count == 4 and photometric == 2:
        tags.append((338, [2]))
    directory_at = 8 + sum(sizes)
    behind = directory_at + 2 + 12 * len(tags) + 4
    directory, values = struct.pack(order + "H", len(tags)), b""
    for tag, numbers in sorted(tags):
        packed = struct.pack(f"{order}{len(numbers)}I", *numbers)
        if len(packed) > 4:
            values, packed = (
                values + packed,
                struct.pack(order + "I", behind + len(values)),
            )
        directory += struct.pack(order + "HHI", tag, 4, len(numbers)) + packed
    magic = (b"II" if order == "<" else b"MM") + struct.pack(
        order + "HI", 42, directory_at
    )
    return magic + b"".join(blocks) + directory + bytes(4) + values


def tiffs() -> None:
    image = Image.fromarray(picture())
    rgba = np.concatenate([picture(), alpha_plane()[..., None]], -1)
    for mode, compressions in {
        "RGB": ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"),
        "RGBA": ("raw", "tiff_lzw"),
        "L": ("raw", "tiff_lzw", "jpeg"),
        "LA": ("raw",),
        "P": ("raw", "packbits"),
        "1": ("raw", "group3", "group4"),
        "CMYK": ("raw", "tiff_lzw"),
        "YCbCr": ("jpeg",),
    }.items():
        for compression in compressions:
            stored = Image.fromarray(rgba) if mode in ("RGBA", "LA") else image
            encoded = encode(stored.convert(mode), "TIFF", compression=compression)
            save(f"{mode.lower()}_{compression}.tif", encoded, decoded(encoded))
    gray_16 = Image.fromarray(to_16_bits(picture()[..., 1]))
    encoded = encode(gray_16, "TIFF", compression="tiff_lzw")
    save("gray_16.tif", encoded, decoded(encoded))
    pages = encode(image, "TIFF", save_all=True, append_images=[image.rotate(180)])
    save("pages.tif", pages, picture())
    for orientation in range(1, 9):
        stored = Image.fromarray(stored_for(picture(), orientation))
        encoded = encode(stored, "TIFF", tiffinfo={274: orientation})
        save(f"orientation_{orientation}.tif", encoded, picture())
    flat = over_background(picture(), alpha_plane())
    sixteen = to_16_bits(picture())
    for order in "<>":
        name = "little" if order == "<" else "big"
        save(f"strips_{name}.tif", tiff(picture(), 2, order), picture())
        save(f"sixteen_{name}.tif", tiff(sixteen, 2, order), to_8_bits(sixteen, 16))
        save(f"planes_{name}.tif", tiff(picture(), 2, order, planar=True), picture())
        save(f"tiles_{name}.tif", tiff(picture(), 2, order, tile=16), picture())
    save("tiles_planes.tif", tiff(rgba, 2, "<", tile=16, planar=True), flat)
    inverted = 255 - picture()[..., :1]
    save("white_is_zero.tif", tiff(inverted, 0, "<"), picture()[..., :1].repeat(3, -1))


def avifs() -> None:
    image = Image.fromarray(picture())
    transparent = Image.fromarray(
        np.concatenate([picture(), alpha_plane()[..., None]], -1)
    )
    variants = {
        "420": (image, {"quality": 80}),
        "444": (image, {"quality": 80, "subsampling": "4:4:4"}),
        "limited": (image, {"quality": 80, "range": "limited"}),
        "gray": (image.convert("L"), {"quality": 80}),
        "alpha": (transparent, {"quality": 80}),
        "animated": (image, {"save_all": True, "append_images": [image.rotate(180)]}),
    }
    for name, (source, options) in variants.items():
        encoded = encode(source, "AVIF", **options)
        save(f"{name}.avif", encoded, decoded(encoded))
    for orientation in range(1, 9):
        stored = Image.fromarray(stored_for(picture(), orientation))
        encoded = encode(
            stored, "AVIF", quality=95, exif=b"Exif\0\0" + exif(orientation)
        )
        save(f"orientation_{orientation}.avif", encoded, decoded(encoded))


if __name__ == "__main__":
    for old in FOLDER.iterdir():
        if old.suffix not in {".py", ".md"}:
            old.unlink()
    for write in (
        jpegs,
        pngs,
        webps,
        odd_jpegs,
        odd_pngs,
        odd_webps,
        gifs,
        bmps,
        tiffs,
        avifs,
    ):
        write()
