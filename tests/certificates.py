"""Certificates for a test, made by the `openssl` program."""

from __future__ import annotations

import dataclasses
import pathlib
import ssl
import subprocess

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


@dataclasses.dataclass(frozen=True)
class Certificate:
    certificate: pathlib.Path
    key: pathlib.Path


class Authority:
    """Issues certificates into a folder; its own is `root`."""

    def __init__(self, folder: pathlib.Path, name: str = "authority"):
        folder.mkdir(exist_ok=True)
        self._folder, self._name = folder, name
        self.root, self._key = folder / f"{name}.pem", folder / f"{name}.key"
        openssl("req", "-x509", *CURVE, "-nodes", "-days", "2", "-subj", f"/CN={name}",
                "-keyout", self._key, "-out", self.root)  # fmt: skip

    def issue(
        self, name: str, days: int = 1, address: str = "127.0.0.1"
    ) -> Certificate:
        """For a host of that name and address, or for a caller. `days` below 0: expired."""
        issued = Certificate(
            self._folder / f"{self._name}_{name}.pem",
            self._folder / f"{self._name}_{name}.key",
        )
        request, names = self._folder / "request.csr", self._folder / "names.txt"
        names.write_text(f"subjectAltName=DNS:{name},IP:{address}\n")
        openssl("req", *CURVE, "-nodes", "-subj", f"/CN={name}", "-keyout", issued.key,
                "-out", request)  # fmt: skip
        openssl("x509", "-req", "-in", request, "-CA", self.root, "-CAkey", self._key,
                "-CAcreateserial", "-days", days, "-extfile", names,
                "-out", issued.certificate)  # fmt: skip
        return issued


def openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def caller_context(
    root: pathlib.Path, shown: Certificate | None = None
) -> ssl.SSLContext:
    """Of a caller that trusts `root`, and shows a certificate."""
    context = ssl.create_default_context(cafile=str(root))
    if shown is not None:
        context.load_cert_chain(shown.certificate, shown.key)
    return context
