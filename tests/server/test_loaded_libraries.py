"""What the server's process holds: each library in it is one more that a caller's bytes might reach.

SECURITY.md says which of them read what a caller sent.
"""

from __future__ import annotations

import pathlib
import re

# By file name, up to ".so".
OUR_OWN = r"libfovea_\w+"
SYSTEM = r"ld-linux-x86-64|lib(c|m|dl|rt|util|pthread|resolv|gcc_s|stdc\+\+|numa)"
WIRE = r"lib(grpc(\+\+(_reflection)?)?|gpr|upb|address_sorting|cares|re2|ssl|crypto|protobuf|absl_\w+|systemd)"
# libdeflate unpacks strips for libtiff, and libyuv converts colours for libavif.
IMAGES = r"lib(jpeg|png16|webp|gif|tiff|deflate|avif|dav1d|yuv|hwy)"
# Debian's libtiff and libavif were linked with these, too. No caller's bytes reach them: other compressions of TIFF are
# refused before libtiff sees the file, and libavif is told to decode by dav1d.
UNUSED_CODECS = r"lib(zstd|lzma|Lerc|jbig|gav1|rav1e|SvtAv1Enc|aom)"
# Debian's OpenCV, which draws answers (server/imaging/drawing), and what it was linked with.
DRAWING = (
    r"lib(opencv_(core|imgproc)|tbb(malloc)?|blas|lapack|gfortran|quadmath"
    r"|GLX|GLdispatch|OpenGL|X11|Xau|Xdmcp|xcb|bsd|md)"
)
COMPRESSION = r"libz"
JSON = r"libsimdjson"
OBSERVATION = r"lib(spdlog|fmt|prometheus-cpp-core)"
LIBTORCH = r"lib(torch\w*|c10\w*|gomp\S*)"
# LibTorch's wheel is built with CUDA and loads these whether or not there is a GPU.
NVIDIA = r"lib(cuda|cudart|cudnn\w*|cupti|cufile|cufft|curand|cublas\w*|cusparse\w*|cusolver\w*|nccl|nv[\w-]+)"
EXPECTED = re.compile(
    f"({OUR_OWN}|{SYSTEM}|{WIRE}|{IMAGES}|{UNUSED_CODECS}|{DRAWING}|{COMPRESSION}|{JSON}|{OBSERVATION}|{LIBTORCH}|{NVIDIA})"
    r"(-[0-9a-f]+)?\.so(\.\d+)*"
)


def loaded(pid: int) -> set[str]:
    """The shared libraries that are mapped into the process, by file name."""
    fields = (
        line.split(maxsplit=5)
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    )
    paths = {pathlib.Path(line[5]) for line in fields if len(line) == 6}
    return {path.name for path in paths if ".so" in path.suffixes}


def test_the_process_holds_the_libraries_that_are_listed_here_and_no_other(server):
    names = loaded(server.process.pid)
    # These image libraries are always linked; a list that misses one was read wrongly.
    for library in ("libjpeg.so", "libpng16.so", "libwebp.so"):
        assert any(name.startswith(library) for name in names), sorted(names)
    surprises = sorted(name for name in names if not EXPECTED.fullmatch(name))
    assert not surprises, f"{len(surprises)} of {len(names)}: {' '.join(surprises)}"
