"""Which files are pictures: by their names, as the fovea command takes them."""

from __future__ import annotations

import os
import pathlib

EXTENSIONS = {".jpg", ".jpeg", ".png", ".webp"}


def is_hidden(path: pathlib.Path) -> bool:
    return path.name.startswith(".")


def is_picture(path: pathlib.Path) -> bool:
    return path.suffix.lower() in EXTENSIONS and not is_hidden(path)


def pictures_below(folder: pathlib.Path) -> list[pathlib.Path]:
    """Those in `folder` and in the folders below, in alphabetical order; hidden ones are left out.

    A link to nothing is one, which cannot be read.
    """
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [pathlib.Path(place, name) for name in files]
    return sorted(
        path
        for path in found
        if is_picture(path) and (path.is_file() or not path.exists())
    )
