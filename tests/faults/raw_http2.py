"""A connection on which a test writes HTTP/2 by hand: for what no client library sends."""

from __future__ import annotations

import socket
import ssl
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS = 1, 4
INITIAL_WINDOW_SIZE = 4
CANCEL, ENHANCE_YOUR_CALM = 8, 11


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """RFC 9113, section 4.1."""
    length = struct.pack(">I", len(payload))[1:]
    return length + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def settings(**values: int) -> bytes:
    """`window`: how much a stream may send to us before we ask for more."""
    window = values.get("window")
    payload = b"" if window is None else struct.pack(">HI", INITIAL_WINDOW_SIZE, window)
    return frame(SETTINGS, 0, 0, payload)


def call_headers(method: str, stream: int, **metadata: str) -> bytes:
    """The HEADERS frame of a call, each field a literal without indexing (RFC 7541, section 6.2.2)."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": method,
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
        **{name.replace("_", "-"): value for name, value in metadata.items()},
    }
    block = b""
    for name, value in fields.items():
        block += b"\0" + bytes([len(name)]) + name.encode()
        block += bytes([len(value)]) + value.encode()
    return frame(HEADERS, END_HEADERS, stream, block)


def short_calls(method: str, count: int) -> bytes:
    """The HEADERS frames of so many calls, from stream 1 on: 15 bytes each by HPACK's tables, but for the first."""

    def literal(index: bytes, text: bytes) -> bytes:  # RFC 7541, section 6.2.1
        return index + bytes([len(text)]) + text

    first = b"\x83\x86" + literal(b"\x44", method.encode()) + literal(b"\x41", b"x")
    first += literal(b"\x5f", b"application/grpc") + literal(b"\x40\x02te", b"trailers")
    others = b"\x83\x86\xc1\xc0\xbf\xbe"
    return b"".join(
        frame(HEADERS, END_HEADERS, 2 * number + 1, others if number else first)
        for number in range(count)
    )


def call_message(message: bytes, stream: int) -> bytes:
    """The DATA frames of a whole message, which end the call's sending; at most 64 KiB by the first windows."""
    body = struct.pack(">BI", 0, len(message)) + message
    frames = b""
    for start in range(0, len(body), 16384):
        last = start + 16384 >= len(body)
        frames += frame(
            DATA, END_STREAM if last else 0, stream, body[start : start + 16384]
        )
    return frames


def data_frames(payload: bytes, stream: int, size: int) -> bytes:
    """DATA frames of `size` bytes each, and one of what is left; none ends the call's sending."""
    left = len(payload) % size
    head = frame(DATA, 0, stream, bytes(size))[:9]
    frames = [
        head + payload[at : at + size] for at in range(0, len(payload) - left, size)
    ]
    if left:
        frames.append(frame(DATA, 0, stream, payload[-left:]))
    return b"".join(frames)


class RawConnection:
    def __init__(
        self, address: str, timeout: float = 60, tls: ssl.SSLContext | None = None
    ):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        if tls is not None:
            tls.set_alpn_protocols(["h2"])
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)

    def send(self, data: bytes) -> bool:
        """False where the server has hung up."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            return False
        return True

    def shake_hands(self) -> None:
        """Tells our settings and acknowledges the server's; they bind us from here on."""
        self.send(PREFACE + settings())
        while (received := self.read_frame()) is not None:
            if received[:2] == (SETTINGS, 0):
                self.send(frame(SETTINGS, 1, 0))
            elif received[0] == SETTINGS:
                return

    def read_to_end(self) -> bytes:
        """Everything until the server hangs up."""
        received = b""
        try:
            while chunk := self.socket.recv(65536):
                received += chunk
        except (ConnectionResetError, ssl.SSLEOFError):
            pass
        return received

    def read_frame(self) -> tuple[int, int, int, bytes] | None:
        """Kind, flags, stream and payload of the next frame; None where the server has hung up."""
        head = self._read(9)
        if head is None:
            return None
        payload = self._read(int.from_bytes(head[:3], "big"))
        if payload is None:
            return None
        return head[3], head[4], int.from_bytes(head[5:9], "big"), payload

    def _read(self, size: int) -> bytes | None:
        received = b""
        while len(received) < size:
            try:
                chunk = self.socket.recv(size - len(received))
            except ConnectionResetError:
                return None
            if not chunk:
                return None
            received += chunk
        return received

    def close(self) -> None:
        self.socket.close()
