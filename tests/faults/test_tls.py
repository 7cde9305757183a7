"""Row 49 of docs/faults.md: TLS on every port, with certificates that are good, bad, and replaced."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import pathlib
import re
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import warnings

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from certificates import Authority, Certificate, caller_context
from fault_support import (
    MODEL,
    SIZE,
    Caller,
    expect,
    identity_request,
    wait_until,
)
from running_server import BUILD, ROOT, Server, command_line

sys.path.insert(0, str(ROOT / "client" / "python"))

from fovea import client

PATHS = {"http": "/v2/health/live", "metrics": "/metrics"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def own(authority: Authority) -> Certificate:
    return authority.issue("localhost")


@pytest.fixture(scope="module")
def shown(authority: Authority) -> Certificate:
    return authority.issue("caller")


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("strangers"), "strangers")


def tls_flags(
    own: Certificate, client_ca: pathlib.Path | None = None
) -> tuple[object, ...]:
    flags = ("--tls-cert", own.certificate, "--tls-key", own.key)
    return flags if client_ca is None else (*flags, "--tls-client-ca", client_ca)


def ports(server: Server) -> dict[str, tuple[str, int]]:
    return {
        name: (host, int(port))
        for name in ("grpc", "http", "metrics")
        for host, port in [getattr(server, name).split(":")]
    }


def get(address: str, path: str, context: ssl.SSLContext) -> tuple[int, str]:
    connection = http.client.HTTPSConnection(address, timeout=30, context=context)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def shake_hands(address: tuple[str, int], context: ssl.SSLContext) -> bytes:
    """The certificate that the server shows, once it has taken the caller's too."""
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(address, timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=address[0]) as connection,
    ):
        # With TLS 1.3 a caller's handshake ends before the server has judged its certificate. A server of gRPC speaks
        # first.
        assert connection.recv(1)
        return connection.getpeercert(binary_form=True)


def secure_caller(
    server: Server, root: pathlib.Path, shown: Certificate | None = None
) -> Caller:
    pair = (
        (shown.key.read_bytes(), shown.certificate.read_bytes())
        if shown
        else (None, None)
    )
    return Caller(server.grpc, grpc.ssl_channel_credentials(root.read_bytes(), *pair))


def test_row_49_what_cannot_be_used_is_refused_at_the_start_and_no_port_opens(
    tmp_path: pathlib.Path,
    identity_repository: pathlib.Path,
    authority: Authority,
    own: Certificate,
):
    expired = authority.issue("expired", days=-1)
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    # server/transport has what else is no certificate.
    cases = {
        "No such file or directory": (own.certificate, tmp_path / "missing.key"),
        "the key is not the certificate's": (own.certificate, expired.key),
        "the certificate has expired": (expired.certificate, expired.key),
        "issuers is empty": (own.certificate, own.key, empty),
    }
    if os.getuid() != 0:
        unreadable = tmp_path / "unreadable.key"
        shutil.copy(own.key, unreadable)
        unreadable.chmod(0)
        cases["Permission denied"] = (own.certificate, unreadable)
    for told, (certificate, key, *client_ca) in cases.items():
        ended = subprocess.run(
            command_line(
                *("--model-repository", identity_repository),
                *tls_flags(Certificate(certificate, key), *client_ca),
            ),
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
        printed = ended.stdout + ended.stderr
        assert ended.returncode == 1, (told, printed)
        assert "cannot start" in printed and told in printed, (told, printed)
        assert "listening" not in printed


def test_row_49_only_callers_that_prove_themselves_get_an_answer(
    start_server,
    identity_repository: pathlib.Path,
    authority: Authority,
    strangers: Authority,
    own: Certificate,
    shown: Certificate,
):
    server = start_server(
        *("--model-repository", identity_repository, "--access-log", "all"),
        *tls_flags(own, authority.root),
    )
    trusted = caller_context(authority.root, shown)

    def is_served() -> None:
        for name, path in PATHS.items():
            assert get(getattr(server, name), path, trusted)[0] == 200
        secure_caller(server, authority.root, shown).infer(identity_request())

    is_served()
    server.wait_for_log(r"principal=\"?caller")

    for name, address in ports(server).items():  # in plain text: no answer, the end
        with socket.create_connection(address, timeout=30) as plain:
            plain.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            received = read_to_end(plain)
            assert not received.startswith(b"HTTP"), name
    expect(Caller(server.grpc).refused(identity_request()), "UNAVAILABLE")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old = caller_context(authority.root, shown)
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
    unproved = {
        "TLS 1.1": old,
        "no certificate": caller_context(authority.root),
        "another issuer's": caller_context(authority.root, strangers.issue("caller")),
        "an expired one": caller_context(
            authority.root, authority.issue("late", days=-1)
        ),
    }
    for why, context in unproved.items():
        for name, path in PATHS.items():
            with pytest.raises(OSError):
                pytest.fail(f"{why}: {get(getattr(server, name), path, context)}")
        with pytest.raises((OSError, AssertionError)):
            shake_hands(ports(server)["grpc"], context)
    expect(
        secure_caller(server, authority.root).refused(identity_request()), "UNAVAILABLE"
    )
    # What the caller finds wrong is the caller's to refuse.
    with pytest.raises(ssl.SSLCertVerificationError):
        get(server.http, PATHS["http"], caller_context(strangers.root, shown))
    is_served()
    assert server.terminate() == 0


def read_to_end(connection: socket.socket) -> bytes:
    """A timeout where the server does not hang up."""
    received = b""
    try:
        while part := connection.recv(4096):
            received += part
    except ConnectionResetError:
        pass
    return received


def test_row_49_a_certificate_of_another_name_is_the_callers_to_refuse(
    start_server, identity_repository: pathlib.Path, authority: Authority
):
    elsewhere = authority.issue("elsewhere", address="192.0.2.1")
    server = start_server(
        *("--model-repository", identity_repository, *tls_flags(elsewhere)),
        "--metrics-plaintext",
    )
    with pytest.raises(ssl.SSLCertVerificationError):
        get(server.http, PATHS["http"], caller_context(authority.root))
    expect(
        secure_caller(server, authority.root).refused(identity_request()), "UNAVAILABLE"
    )
    plain = http.client.HTTPConnection(server.metrics, timeout=30)
    plain.request("GET", "/metrics")
    assert b"fovea_tls_certificate_expiry_seconds" in plain.getresponse().read()
    plain.close()


def test_row_49_certificates_are_replaced_while_requests_flow_and_bad_ones_are_not_taken(
    tmp_path: pathlib.Path,
    start_server,
    identity_repository: pathlib.Path,
    authority: Authority,
    own: Certificate,
):
    used = Certificate(tmp_path / "used.pem", tmp_path / "used.key")
    replace(used, own)
    server = start_server("--model-repository", identity_repository, *tls_flags(used))
    trusted = caller_context(authority.root)
    lasting = secure_caller(server, authority.root)
    lasting.infer(identity_request())
    stop, failures, answered = threading.Event(), [], [0]

    def keep_asking() -> None:
        while not stop.is_set():
            try:
                lasting.infer(identity_request())
                fresh = secure_caller(server, authority.root)
                fresh.infer(identity_request())
                fresh.channel.close()
                assert get(server.http, PATHS["http"], trusted)[0] == 200
                answered[0] += 1
            except Exception as error:  # noqa: BLE001 (told by the test's own thread)
                failures.append(error)
                return

    asking = threading.Thread(target=keep_asking)
    asking.start()
    try:
        following = authority.issue("following")
        expected = ssl.PEM_cert_to_DER_cert(following.certificate.read_text())
        replace(used, following)

        def all_show_the_new_one() -> bool:
            return all(
                certificate_of(address, name, authority) == expected
                for name, address in ports(server).items()
            )

        wait_until(all_show_the_new_one)
        for bad in (
            authority.issue("expired", days=-1),
            Certificate(own.certificate, following.key),
        ):
            refused = metric(server, trusted, 'result="refused",what="tls"')
            replace(used, bad)
            wait_until(
                lambda before=refused: (
                    metric(server, trusted, 'result="refused",what="tls"') > before
                )
            )
            assert all_show_the_new_one()
        seen = answered[0]
        wait_until(lambda: answered[0] > seen + 1 or failures)
    finally:
        stop.set()
        asking.join()
    assert not failures, failures
    text = server.log.read_text()
    assert "loaded again" in text and "what was there before stays" in text
    assert metric(server, trusted, 'result="taken",what="tls"') == 1
    assert server.terminate() == 0


def replace(used: Certificate, by: Certificate) -> None:
    """As a deployment does: each file at once, one after the other."""
    for old, new in ((used.certificate, by.certificate), (used.key, by.key)):
        copy = old.with_suffix(".new")
        shutil.copy(new, copy)
        copy.rename(old)


def certificate_of(address: tuple[str, int], name: str, authority: Authority) -> bytes:
    context = caller_context(authority.root)
    context.check_hostname = False
    if name == "grpc":
        return shake_hands(address, context)
    with (
        socket.create_connection(address, timeout=30) as plain,
        context.wrap_socket(plain) as connection,
    ):
        return connection.getpeercert(binary_form=True)


def metric(server: Server, context: ssl.SSLContext, labels: str) -> float:
    text = get(server.metrics, "/metrics", context)[1]
    found = re.search(
        rf"^fovea_credential_reloads_total{{{labels}}} (\S+)$", text, re.MULTILINE
    )
    return float(found.group(1)) if found else 0


def test_tritons_clients_speak_tls_over_both_protocols(
    start_server,
    identity_repository: pathlib.Path,
    authority: Authority,
    own: Certificate,
    shown: Certificate,
):
    server = start_server(
        *("--model-repository", identity_repository),
        *tls_flags(own, authority.root),
    )
    pixels = np.arange(SIZE * SIZE * 3, dtype=np.uint32).astype(np.uint8)
    pixels = pixels.reshape(1, SIZE, SIZE, 3)
    callers = {
        triton_grpc: triton_grpc.InferenceServerClient(
            server.grpc,
            ssl=True,
            root_certificates=str(authority.root),
            private_key=str(shown.key),
            certificate_chain=str(shown.certificate),
        ),
        triton_http: triton_http.InferenceServerClient(
            server.http,
            ssl=True,
            ssl_options={
                "keyfile": str(shown.key),
                "certfile": str(shown.certificate),
                "ca_certs": str(authority.root),
            },
        ),
    }
    for library, caller in callers.items():
        tensor = library.InferInput("image_rgb", pixels.shape, "UINT8")
        tensor.set_data_from_numpy(pixels)
        answer = caller.infer("identity", [tensor])
        (output,) = (
            answer.get_response()["outputs"]
            if library is triton_http
            else answer.get_response().outputs
        )
        name = output["name"] if library is triton_http else output.name
        np.testing.assert_array_equal(answer.as_numpy(name).ravel(), pixels.ravel())
        caller.close()


def test_foveas_clients_speak_tls_and_show_what_they_are_asked_for(
    start_server,
    one_model: pathlib.Path,
    authority: Authority,
    own: Certificate,
    shown: Certificate,
    tmp_path: pathlib.Path,
):
    key = secrets.token_urlsafe(32)
    keys = tmp_path / "keys.json"
    digest = hashlib.sha256(key.encode()).hexdigest()
    entry = {"name": "us", "sha256": digest, "groups": ["inference", "metadata"]}
    keys.write_text(json.dumps({"keys": [entry]}))
    server = start_server(
        *("--model-repository", one_model, "--api-keys-file", keys),
        *tls_flags(own, authority.root),
    )
    picture = ROOT / "client/examples/star.jpg"
    access = {
        "tls_ca": authority.root,
        "tls_certificate": shown.certificate,
        "tls_key": shown.key,
    }
    with client.Client(server.grpc, **access, api_key=key) as python:
        assert python.classify(MODEL, [picture]).images[0].labels
        with python.stream() as stream:
            stream.classify(MODEL, [picture])
            stream.writes_done()
            assert next(iter(stream)).error is None
    with (
        client.Client(server.grpc, **access) as keyless,
        pytest.raises(client.Error) as refused,
    ):
        keyless.classify(MODEL, [picture])
    assert refused.value.code == "UNAUTHENTICATED"
    flags = ("--tls-ca", authority.root, "--tls-cert", shown.certificate,
             "--tls-key", shown.key)  # fmt: skip
    command = [BUILD / "bin/fovea", "--server", server.grpc, *flags, "classify", "-m", MODEL,
               picture]  # fmt: skip
    asked = {**os.environ, "FOVEA_API_KEY": key}
    assert b"star" in subprocess.check_output(command, env=asked)
    without = subprocess.run(command, capture_output=True, check=False)
    assert without.returncode == 1 and b"API key" in without.stderr
    # `fovea evaluate` is another program, which is told the same.
    folder = tmp_path / "pictures/star"
    folder.mkdir(parents=True)
    shutil.copy(picture, folder)
    program = tmp_path / "bin/fovea-evaluate"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} -m fovea.evaluation.command "$@"\n'
    )
    program.chmod(0o755)
    asked |= {"PYTHONPATH": str(ROOT / "client/python")}
    asked["PATH"] = f"{program.parent}:{asked['PATH']}"
    evaluating = ("evaluate", "-m", MODEL, "-d", folder.parent, "--json")
    for one in (
        [BUILD / "bin/fovea", "--server", server.grpc, *flags, *evaluating],
        [program, *evaluating[1:], "--server", server.grpc, *flags],
    ):
        figures = json.loads(subprocess.check_output(one, env=asked))
        assert figures["models"][0]["answered"] == 1, figures
        keyless = {
            name: text for name, text in asked.items() if name != "FOVEA_API_KEY"
        }
        without = subprocess.run(one, env=keyless, capture_output=True, check=False)
        assert without.returncode == 1 and b"API key" in without.stderr
        empty = {**asked, "FOVEA_API_KEY": ""}
        refused = subprocess.run(one, env=empty, capture_output=True, check=False)
        assert refused.returncode == 2 and b"FOVEA_API_KEY" in refused.stderr
