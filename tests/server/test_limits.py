"""What the server bears: slow, large, many, and who may do what."""

import json
import shutil
import socket
import ssl
import subprocess
import time

import pytest

from fixtures import ENDLESS, GREEDY, folder, long_model, model  # noqa: F401
from server_process import ServerProcess

from command import patchbay, refusal  # noqa: E402


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def seconds_until_closed(connection):
    """What was sent until then does not count."""
    begin = time.monotonic()
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return time.monotonic() - begin


def request(body, path="/v1/completions", **headers):
    data = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", f"Content-Length: {len(data)}", *(f"{key}: {value}" for key, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


# Time


def test_slow_clients_are_cut_and_cost_nobody_else_anything(model):
    with ServerProcess(model, "--timeout-header", 1, "--timeout-idle", 2, "--timeout-body", 1, "--threads-http", 1) as server:
        dripping = [connect(server) for _ in range(20)]
        for connection in dripping:
            connection.sendall(b"POST /v1/completions HTT")
        stalled = connect(server)
        stalled.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 10\r\n\r\n{")
        idle = connect(server)
        begin = time.monotonic()
        while time.monotonic() - begin < 0.8:
            assert server.post("/v1/completions", GREEDY)[0] == 200
            for connection in dripping:
                connection.sendall(b"x")  # a byte now and then buys no more time
        for connection in [*dripping, stalled]:
            assert seconds_until_closed(connection) < 1.5
        assert time.monotonic() - begin < 2
        seconds_until_closed(idle)
        assert 1.9 < time.monotonic() - begin < 4


def test_a_client_that_does_not_read_is_cut_and_its_answer_ends(long_model):
    with ServerProcess(long_model, "-c", 65536, "--parallel", 1, "--timeout-write", 1) as server:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            deaf.connect(("127.0.0.1", server.port))
            # Each event tells the twenty best, so that the buffers between are full soon.
            deaf.sendall(request(ENDLESS | {"stream": True, "logprobs": 20}))
            deadline = time.monotonic() + 30
            while 'outcome="cancelled"} 1' not in server.get("/metrics")[2]:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert server.post("/v1/completions", GREEDY)[0] == 200


def test_a_stream_that_waits_says_that_it_is_alive(long_model):
    with ServerProcess(long_model, "-c", 65536, "--parallel", 1, "--sse-ping-interval", 1) as server:
        running, waiting = connect(server), connect(server)
        running.sendall(request(ENDLESS | {"stream": True}))
        assert running.recv(1000)
        waiting.sendall(request(GREEDY | {"stream": True}))
        answer = b""
        while answer.count(b": keep-alive\n\n") < 2:
            answer += waiting.recv(1000)
        assert answer.startswith(b"HTTP/1.1 200 OK") and b"data:" not in answer
        running.close()
        while b"[DONE]" not in answer:
            answer += waiting.recv(1000)
        waiting.close()


# Size and number


def test_bodies_and_heads_have_their_size(model):
    with ServerProcess(model, "--max-body", "1K", "--max-header", "1K") as server:
        for padding, status in ((900, 200), (1100, 413)):
            assert server.post("/v1/completions", GREEDY | {"user": "x" * padding})[0] == status
        status, headers, body = server.post("/v1/completions", GREEDY | {"user": "x" * 1100})
        assert body["error"]["type"] == "BadRequestError" and "1024" in body["error"]["message"]
        assert server.get("/health", X=500 * "y")[0] == 200 and server.get("/health", X=1500 * "y")[0] == 431
        with connect(server) as connection:  # chunks that never say how many they are
            connection.sendall(b"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"100\r\n" + b"x" * 256 + b"\r\n")
            for _ in range(4):
                connection.sendall(b"100\r\n" + b"x" * 256 + b"\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_prompts_that_cannot_fit_are_refused_without_being_read(model):
    with ServerProcess(model) as server:
        begin = time.monotonic()
        for path, field in (("/completion", "prompt"), ("/embedding", "content")):
            status, _, body = server.post(path, {field: "abc" * 5_000_000})
            assert status == 400 and body["error"]["type"] == "exceed_context_size_error"
            assert body["error"]["n_prompt_tokens"] > 32 and body["error"]["n_ctx"] == 32
        for path, field in (("/v1/completions", "prompt"), ("/generate", "text"), ("/generate", "inputs")):
            assert server.post(path, {field: "abc" * 5_000_000})[0] == 400
        assert time.monotonic() - begin < 10


def test_more_connections_than_allowed_are_told_to_come_back(model):
    with ServerProcess(model, "--max-connections", 3) as server:
        held = [connect(server) for _ in range(3)]
        for connection in held:
            connection.sendall(b"GET /health HTTP/1.1\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        status, headers, body = server.get("/health")
        assert status == 503 and headers["Retry-After"] and headers["Connection"] == "close"
        assert body["error"]["type"] == "ServiceUnavailableError"
        held.pop().close()
        deadline = time.monotonic() + 10
        while server.get("/health")[0] != 200:
            assert time.monotonic() < deadline


def test_more_answers_than_seats_are_refused(model):
    with ServerProcess(model, "--parallel", 2) as server:
        assert server.post("/v1/completions", GREEDY | {"n": 2})[0] == 200
        status, _, body = server.post("/v1/completions", GREEDY | {"n": 3})
        assert status == 400 and "2" in body["error"]["message"]


# Who


def test_tenants_do_not_see_each_others_prefixes(long_model, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("".join(json.dumps(key) + "\n" for key in (
        {"key": "k1", "name": "one"}, {"key": "k2", "name": "two"}, {"key": "k3", "name": "three", "tenant": "one"})))
    with ServerProcess(long_model, "-c", 4096, "--api-key-file", keys) as server:
        def n_cached(key):
            body = {"prompt": "abc" * 40, "max_tokens": 1}
            answer = server.post("/v1/completions", body, Authorization=f"Bearer {key}")[2]
            return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

        assert [n_cached(key) for key in ("k1", "k2")] == [0, 0]
        assert n_cached("k1") > 0 and n_cached("k2") > 0 and n_cached("k3") > 0


def test_key_files_hold_json_or_keys_alone(model, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text('# whose\nplain-key_1.x=\n  \n{"key": "k1", "name": "team"}\r\n')
    with ServerProcess(model, "--api-key-file", keys, "--api-key", "a,b") as server:
        def may_change(key):
            return server.ask("POST", "/lora-adapters", [], {"Authorization": f"Bearer {key}"})[0]

        assert [may_change(key) for key in ("plain-key_1.x=", "a", "b", "k1", "a,b", "# whose", "")] == [200] * 3 + [403] + [401] * 3
    for text, words in (('{"key": "s3cret"', "JSON"), ('"key": "s3cret"}', "neither"), ('{"name": "s3cret"}', "no key"),
                        ('{"key": "s3cret", "admin": "yes"}', "admin"), ('{"key": 5353535}', "key"), ("# s3cret\n", "no key")):
        keys.write_text(text)
        words_found = refusal(patchbay("serve", "-m", model, "--port", 0, "--api-key-file", keys), 1)
        assert words in words_found and "s3cret" not in words_found and "535" not in words_found, text


# Browsers


def test_pages_may_ask_only_when_they_are_listed(model):
    page = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization, x-stainless-os"}
    with ServerProcess(model) as server:
        status, headers, _ = server.get("/health", **page)
        assert status == 200 and "Access-Control-Allow-Origin" not in headers
        status, headers, _ = server.ask("OPTIONS", "/v1/completions", None, page)
        assert status == 405 and "Access-Control-Allow-Origin" not in headers
    with ServerProcess(model, "--cors-origins", "https://app.example,https://other:8", "--api-key", "k") as server:
        status, headers, _ = server.ask("OPTIONS", "/v1/completions", None, page)
        assert status == 204 and headers["Access-Control-Allow-Origin"] == "https://app.example"
        assert "POST" in headers["Access-Control-Allow-Methods"] and headers["Vary"] == "Origin"
        assert "x-stainless-os" in headers["Access-Control-Allow-Headers"] and "Content-Length" not in headers
        assert server.post("/v1/completions", GREEDY, Origin="https://app.example")[1]["Access-Control-Allow-Origin"]
        for origin in ("https://evil.example", "http://app.example", "https://app.example:1", "null"):
            assert "Access-Control-Allow-Origin" not in server.get("/health", Origin=origin)[1]
            assert server.ask("OPTIONS", "/health", None, page | {"Origin": origin})[0] == 405
    with ServerProcess(model, "--cors-origins", "*") as server:
        assert server.get("/health", Origin="null")[1]["Access-Control-Allow-Origin"] == "*"
    with ServerProcess(model, "--cors-origins", "localhost") as server:
        assert server.get("/health", Origin="http://localhost:5173")[1]["Access-Control-Allow-Origin"] == "http://localhost:5173"
        assert "Access-Control-Allow-Origin" not in server.get("/health", Origin="http://localhost.evil.example")[1]


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    assert shutil.which("openssl")
    for name in ("one", "two"):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"],
                       check=True, capture_output=True)
    return folder


def test_large_objects_and_lists_are_read_in_time_that_grows_with_them(model):
    """Quadratic readers take minutes for these; other requests must not wait either."""
    many = {f"k{i}": i for i in range(200000)}
    listed = [{"zz": i} for i in range(300000)]
    with ServerProcess(model) as server:
        for extra in (many, {"zz": listed}):
            assert server.post("/v1/completions", GREEDY | extra)[0] == 200
        assert server.post("/v1/completions", GREEDY | {"lora": [{"name": "x"}] * 200000})[0] == 400
        twice = b'{"prompt": "x", "temperature": 0, "max_tokens": 5, "prompt": "a"}'
        assert server.post("/v1/completions", twice)[2]["choices"][0]["text"] == "bcdef"


def test_who_has_no_key_sends_no_body(model):
    with ServerProcess(model, "--api-key", "secret") as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as one:
            one.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n{")
            assert one.recv(1000).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("coding", ["gzip", "chunked, gzip", "gzip, chunked", "identity"])
def test_an_unknown_coding_ends_the_connection(model, coding):
    smuggled = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    with ServerProcess(model) as server, socket.create_connection(("127.0.0.1", server.port), timeout=10) as one:
        one.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {coding}\r\n\r\n".encode() + smuggled)
        answer = b""
        while part := one.recv(1000):
            answer += part
        assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"HTTP/1.1") == 1


def test_tls_answers_who_speaks_it(model, certificate):
    flags = ("--ssl-cert-file", certificate / "one.pem", "--ssl-key-file", certificate / "one.key", "--timeout-header", 2)
    with ServerProcess(model, *flags, scheme="https") as server:
        context = ssl.create_default_context(cafile=certificate / "one.pem")
        with context.wrap_socket(connect(server), server_hostname="127.0.0.1") as connection:
            assert connection.version() in ("TLSv1.2", "TLSv1.3")
            for stream in (False, True):
                connection.sendall(request(GREEDY | {"stream": stream}))
                answer = b""
                while not (answer.endswith(b"0\r\n\r\n") if stream else b'"usage"' in answer):
                    answer += connection.recv(65536)
                assert answer.startswith(b"HTTP/1.1 200 OK")
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, OSError)):
            old.wrap_socket(connect(server))
        with connect(server) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\n\r\n")
            assert b"HTTP/1.1 200" not in plain.recv(1000)
        assert seconds_until_closed(connect(server)) < 5  # says nothing at all


def test_certificates_that_cannot_be_used_are_named(model, certificate, tmp_path):
    def words(cert, key):
        return refusal(patchbay("serve", "-m", model, "--port", 0, "--ssl-cert-file", cert, "--ssl-key-file", key), 1)

    assert "one.pem" in words(tmp_path / "one.pem", certificate / "one.key")
    assert "none.key" in words(certificate / "one.pem", tmp_path / "none.key")
    assert "two.key" in words(certificate / "one.pem", certificate / "two.key")
    assert "certificate" in words(certificate / "one.key", certificate / "one.key")
    done = patchbay("serve", "-m", model, "--port", 0, "--ssl-cert-file", certificate / "one.pem")
    assert "--ssl-key-file" in refusal(done, 2)
