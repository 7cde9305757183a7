"""Which files are pictures: as the fovea command and the trainer take them (base/picture_signatures.cc)."""

from __future__ import annotations

import collections
import os
import pathlib

EXTENSIONS = frozenset(
    [
        ".jpg",
        ".jpeg",
        ".jpe",
        ".jfif",
        ".png",
        ".webp",
        ".gif",
        ".bmp",
        ".dib",
        ".tif",
        ".tiff",
        ".avif",
    ]
)
# First bytes of a file, then an offset and the bytes there. BMP is missing: its two letters are too few to recognise it by.
SIGNATURES = (
    (b"\xff\xd8\xff", 0, b""),
    (b"\x89PNG\r\n\x1a\n", 0, b""),
    (b"RIFF", 8, b"WEBP"),
    (b"GIF87a", 0, b""),
    (b"GIF89a", 0, b""),
    (b"II*\0", 0, b""),
    (b"MM\0*", 0, b""),
    (b"", 4, b"ftypavif"),
    (b"", 4, b"ftypavis"),
)


def is_hidden(path: pathlib.Path) -> bool:
    return path.name.startswith(".")


def is_picture(path: pathlib.Path) -> bool:
    """True for a picture, by its extension or its first bytes."""
    if is_hidden(path):
        return False
    return path.suffix.lower() in EXTENSIONS or _begins_as_picture(path)


def _begins_as_picture(path: pathlib.Path) -> bool:
    if not path.is_file():  # a pipe would be waited for
        return False
    try:
        with path.open("rb") as file:
            start = file.read(12)
    except OSError:
        return False
    return any(
        start.startswith(magic) and start.startswith(second, second_at)
        for magic, second_at, second in SIGNATURES
    )


def pictures_below(
    folder: pathlib.Path, left_out: collections.Counter[str] | None = None
) -> list[pathlib.Path]:
    """Those in `folder` and in the folders below, in alphabetical order; hidden ones are left out.

    A link to nothing is one, which cannot be read. left_out: the other files are counted there, by extension.
    """
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [pathlib.Path(place, name) for name in files]
    pictures = []
    for path in sorted(found):
        if is_picture(path) and (path.is_file() or not path.exists()):
            pictures.append(path)
        elif left_out is not None and not is_hidden(path):
            left_out[path.suffix.lower() or "without an extension"] += 1
    return pictures


def left_out_notes(left_out: collections.Counter[str]) -> list[str]:
    """A line that says which files are left out, or no line."""
    if not (count := left_out.total()):
        return []
    most = 8
    kinds = sorted(left_out.items(), key=lambda kind: (-kind[1], kind[0]))
    named = ", ".join(f"{extension} {number}" for extension, number in kinds[:most])
    rest = ", ..." if len(kinds) > most else ""
    return [f"{count} file{'s' if count > 1 else ''} left out: {named}{rest}"]
