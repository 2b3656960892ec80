# SPDX-License-Identifier: MIT
"""Raw sockets against the whole server: framing, Expect, pipelining, keep-alive, keys (case 68)."""
import json
import socket
import time
import urllib.parse

import pytest


@pytest.fixture(scope="module")
def hello(module_server, models):
    return module_server(models / "chain")


BODY = json.dumps({"prompt": "x", "temperature": 0}).encode()


def connect(server):
    url = urllib.parse.urlparse(server.url)
    return socket.create_connection((url.hostname, url.port), timeout=10)


def answers(conn, n):
    """The next n answers with Content-Length, as (status, headers, body)."""
    out, data = [], b""
    while len(out) < n:
        while b"\r\n\r\n" not in data:
            piece = conn.recv(65536)
            if not piece:
                return out
            data += piece
        head, data = data.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        fields = {k.lower(): v for k, v in (f.split(": ", 1) for f in lines[1:])}
        length = int(fields.get("content-length", 0))
        while len(data) < length:
            piece = conn.recv(65536)
            if not piece:
                return out
            data += piece
        out.append((int(lines[0].split()[1]), fields, data[:length]))
        data = data[length:]
    return out


def post(body, *fields, path="/v1/completions", version="1.1"):
    head = ["POST %s HTTP/%s" % (path, version), "Host: x", *fields]
    if not any(f.lower().startswith(("content-length", "transfer-encoding")) for f in fields):
        head.append("Content-Length: %d" % len(body))
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def once(server, raw):
    with connect(server) as conn:
        conn.sendall(raw)
        return answers(conn, 1)[0]


def text(answer):
    return json.loads(answer[2])["choices"][0]["text"]


def test_case_68_expect_continue(hello):
    """A body of 2 MB behind Expect: the interim answer comes at once."""
    body = json.dumps({"prompt": "x", "temperature": 0, "ignored": "y" * (2 << 20)}).encode()
    with connect(hello) as conn:
        begin = time.monotonic()
        conn.sendall(post(b"", "Expect: 100-continue", "Content-Length: %d" % len(body)))
        assert conn.recv(4096).startswith(b"HTTP/1.1 100 ")
        assert time.monotonic() - begin < 0.2
        conn.sendall(body)
        assert text(answers(conn, 1)[0]) == "hello world foo"
    with connect(hello) as conn:  # refused at once, the body is never sent
        conn.sendall(post(b"", "Expect: 100-continue", "Content-Length: 99", path="/v1/nosuch"))
        assert answers(conn, 1)[0][0] == 404
    with connect(hello) as conn:
        conn.sendall(post(b"", "Expect: 100-continue", "Content-Length: 99999999"))
        assert answers(conn, 1)[0][0] == 413
    assert once(hello, post(BODY, "Expect: something"))[0] == 417


def test_case_68_chunked_bodies(hello):
    chunks = b"".join(b"%x;ext=1\r\n%s\r\n" % (1, BODY[i:i + 1]) for i in range(len(BODY)))
    good = chunks + b"0\r\nTrailer: x\r\n\r\n"
    assert text(once(hello, post(good, "Transfer-Encoding: chunked"))) == "hello world foo"
    for bad in (b"ffffffffffffffff\r\n", b"g\r\n", b"1\r\nab\r\n", b"1\nx\n0\n\n"):
        assert once(hello, post(bad, "Transfer-Encoding: chunked"))[0] in (400, 413)
    both = post(good, "Transfer-Encoding: chunked", "Content-Length: 5")
    status, fields, _ = once(hello, both)
    assert status == 400 and fields["connection"] == "close"


def test_case_68_lengths_and_pieces(hello):
    for value in ("-1", "1e3", "+5", "5, 5"):
        assert once(hello, post(b"", "Content-Length: " + value))[0] == 400
    assert once(hello, post(b"hello", "Content-Length: 5", "Content-Length: 6"))[0] == 400
    assert once(hello, post(BODY, "X-Long: " + "a" * (1 << 20)))[0] == 431
    with connect(hello) as conn:
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in post(BODY):
            conn.sendall(bytes([byte]))
        assert text(answers(conn, 1)[0]) == "hello world foo"
    assert text(once(hello, post(BODY, version="1.0"))) == "hello world foo"


def test_case_68_pipelined_requests_answer_in_order(hello):
    """A short request behind a long one on the same connection waits for it."""
    long = json.dumps({"prompt": "x", "temperature": 0, "ignore_eos": True,
                       "max_tokens": 300}).encode()
    with connect(hello) as conn:
        conn.sendall(post(long) + post(BODY) + b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        first, second, third = answers(conn, 3)
    assert json.loads(first[2])["usage"]["completion_tokens"] == 300
    assert text(second) == "hello world foo"
    assert third[0] == 200


def test_content_types(hello):
    """What curl -d says is accepted; only a multipart form is not."""
    for kind in ("application/x-www-form-urlencoded", "text/plain", "application/json"):
        assert once(hello, post(BODY, "Content-Type: " + kind))[0] == 200
    assert once(hello, post(BODY))[0] == 200
    assert once(hello, post(BODY, "Content-Type: multipart/form-data; boundary=x"))[0] == 415


def test_methods(hello):
    status, fields, body = once(hello, b"GET /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (status, fields["allow"]) == (405, "POST")
    assert json.loads(body)["error"]["type"] == "MethodNotAllowedError"
    assert once(hello, b"POST /ping HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")[0] == 200
    assert once(hello, b"garbage\r\n\r\n")[0] == 400
    assert json.loads(once(hello, b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")[2])["version"]


def test_api_keys(server, models):
    """Every route but /health and /ping asks for one of the keys."""
    s = server(models / "chain", "--api-key", "first", "--api-key", "second")
    paths = ["/v1/models", "/version", "/metrics", "/v1/nosuchmodel"]
    for path in paths[:3]:
        raw = "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n"
        status, fields, body = once(s, (raw % (path, "")).encode())
        assert status == 401 and fields["www-authenticate"] == "Bearer"
        assert json.loads(body)["error"]["code"] == "invalid_api_key"
        for wrong in ("Bearer firs", "Bearer firstt", "Bearer ", "Bearer", "first", "Basic first"):
            field = "Authorization: %s\r\n" % wrong
            assert once(s, (raw % (path, field)).encode())[0] == 401
        for key in ("first", "second"):
            field = "authorization: bearer %s\r\n" % key
            assert once(s, (raw % (path, field)).encode())[0] == 200
    assert once(s, post(BODY))[0] == 401
    assert once(s, post(BODY, "Authorization: Bearer second"))[0] == 200
    for path in ("/health", "/ping"):
        assert once(s, ("GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path).encode())[0] == 200
