"""Where the pictures of annotations of COCO's format are, and how EXIF turns them. fovea-train finds them by the same rules."""

from __future__ import annotations

import collections
import pathlib
import warnings

from PIL import ExifTags, Image

# In the name of an annotation file, and the names of the folders that its pictures may be in.
_SPLITS = ("train", "training", "val", "valid", "validation")
_PLACES = ("images", "data", "")
_INSTANCES = (
    "instances_"  # CVAT's instances_default.json has its pictures in images/default/
)
_LOCAL_FILE = "?d="  # Label Studio's /data/local-files/?d=photos/a.jpg
_TRANSPOSED = (5, 6, 7, 8)


def picture_folders(
    file: pathlib.Path, images: pathlib.Path | None
) -> list[pathlib.Path]:
    """Folders that may hold the pictures of an annotation file, best first. `images`: the folder that the user named, if any."""
    splits = [split for split in _SPLITS if split in file.stem]
    parts = [
        file.stem.removeprefix(_INSTANCES),
        *(split + year for split in splits for year in ("", "2017")),
    ]

    def of_all(around: pathlib.Path) -> list[pathlib.Path]:
        return [around / sub for sub in _PLACES]

    def of_parts(around: pathlib.Path) -> list[pathlib.Path]:
        return [
            folder
            for part in parts
            for folder in (
                *(around / sub / part for sub in ("images", "data")),
                *(around / part / sub for sub in ("", "images", "data")),
            )
        ]

    if images is None:
        beside, above = file.parent, file.parent.parent
        folders = of_all(beside) + of_parts(beside) + of_parts(above) + of_all(above)
    else:
        folders = [images, *of_parts(images), *of_all(images)]
    there = [folder for folder in dict.fromkeys(folders) if folder.is_dir()]
    return there or [images or file.parent]


def find_pictures(names: list[str], folders: list[pathlib.Path]) -> list[pathlib.Path]:
    """The file of each name; a path in the first folder if it is in none.

    Tools write paths of the machine on which they ran: of these, the longest end that exists counts. No file serves as two
    pictures, and none lies outside of the folders: any file that was named would be sent to the server.
    """
    found = [_place(name, folders) for name in names]
    uses = collections.Counter(path for path, _ in found)
    return [
        folders[0] / name.replace("/", "_") if by_end and uses[path] > 1 else path
        for name, (path, by_end) in zip(names, found, strict=True)
    ]


def _place(name: str, folders: list[pathlib.Path]) -> tuple[pathlib.Path, bool]:
    """The file of a picture, and whether only the end of its name was found."""
    ends = _ends(name)
    for place, end in enumerate(ends):
        for folder in folders:
            if (folder / end).is_file():
                return folder / end, place > 0
    # Not found. The rest of the name may lead out of the folders.
    return folders[0] / (ends[0] if ends else "?"), False


def _ends(name: str) -> list[str]:
    """The name as a relative path, then without its first part, without its first two, and so on."""
    name = name.replace("\\", "/")
    name = name.partition(_LOCAL_FILE)[2] or name
    parts: list[str] = []
    for part in reversed(name.split("/")):
        if part == "..":
            break
        if part not in ("", "."):
            parts.insert(0, part)
    return ["/".join(parts[first:]) for first in range(len(parts))]


def turn_of(file: pathlib.Path, size: tuple[int, int]) -> int:
    """The EXIF orientation of a picture if it swaps this stored width and height, otherwise 1."""
    try:
        with warnings.catch_warnings(), Image.open(file) as picture:
            warnings.simplefilter("ignore")  # its pixels are not read
            turn = int(picture.getexif().get(ExifTags.Base.Orientation, 1))
            stored: tuple[int, int] = picture.size
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return 1  # the server says what is wrong with it
    return turn if turn in _TRANSPOSED and stored == size else 1
