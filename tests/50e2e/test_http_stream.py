# SPDX-License-Identifier: MIT
"""Streams: what is sent in pieces, joined, equals the whole answer; frames, usage, errors, clients."""
import concurrent.futures
import json
import socket
import time
import urllib.parse

import pytest

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def hello(module_server, models):
    return module_server(models / "chain", served_model_name="chain")


@pytest.fixture(scope="module")
def rand(module_server, models):
    return module_server(models / "llama-f32", served_model_name="rand")


def says(chain, pieces):
    """A checkpoint that says these pieces, whatever the prompt."""
    import checkpoints
    return chain(checkpoints.script(pieces), pieces)[0]


def endless(chain):
    """A checkpoint that never stops and has room for 300,000 tokens."""
    import checkpoints
    return chain(checkpoints.script(["la", "li"], eos="la"), ["la", "li"], eos="<|endoftext|>",
                 max_position_embeddings=400000)[0]


def joined(server, **fields):
    """Text and finish reason of a streamed completion, checked for form on the way."""
    out, finish, ids = "", None, set()
    events = list(server.stream("/v1/completions", fields))
    assert events[-1] == "[DONE]"
    for e in events[:-1]:
        ids.add((e["id"], e["model"], e["created"]))
        assert finish is None, "nothing follows the chunk with the reason"
        out += e["choices"][0]["text"]
        finish = e["choices"][0]["finish_reason"]
    assert len(ids) == 1
    return out, finish


def whole(server, **fields):
    status, body = server.post("/v1/completions", fields)
    assert status == 200, body
    return body["choices"][0]["text"], body["choices"][0]["finish_reason"]


def test_case_34_stop_strings_over_token_borders(server, hello):
    """Stop strings that span tokens; checkpoints that say one fixed text."""
    fields = {"prompt": "x", "temperature": 0}
    assert joined(hello, stop=["o wor"], **fields) == ("hell", "stop")
    assert joined(hello, stop=["ld f"], **fields) == ("hello wor", "stop")
    assert whole(hello, stop=["ld f"], **fields) == ("hello wor", "stop")
    assert whole(hello, stop="hello", **fields) == ("", "stop")


def test_case_34_texts_of_the_case(server, chain):
    for pieces, stop, expected in (
            (["The quick br", "own fox"], ["own fox"], "The quick br"),
            (["a\nU", "s\n", "\nb"], ["\nUser:", "\n\n"], "a\nUs"),
            (["aa", "ab"], ["aab"], "a")):
        s = server(says(chain, pieces))
        fields = {"prompt": "x", "temperature": 0, "stop": stop}
        assert joined(s, **fields) == whole(s, **fields) == (expected, "stop")


def test_case_35_text_that_only_begins_like_a_stop(server, chain):
    fields = {"prompt": "x", "temperature": 0, "stop": ["Observation:"]}
    s = server(says(chain, ["Ob", "stacle"]))
    assert joined(s, **fields) == whole(s, **fields) == ("Obstacle", "stop")
    s = server(says(chain, ["Ob", "s"]))
    assert joined(s, **fields) == whole(s, **fields) == ("Obs", "stop")
    s = server(says(chain, ["Obs", "erv", "ation:"]))
    assert joined(s, max_tokens=2, **fields) == ("Observ", "length")
    assert whole(s, max_tokens=2, **fields) == ("Observ", "length")


def test_case_35_stream_equals_whole_for_random_text(rand):
    for seed in range(12):
        fields = {"prompt": "the", "seed": seed, "temperature": 1.0, "max_tokens": 40,
                  "stop": ["ab", "e", "\n\n"][seed % 3]}
        assert joined(rand, **fields) == whole(rand, **fields)


def test_split_characters_stay_whole(server, chain):
    """A character of four bytes over two tokens is never sent in halves."""
    pieces = [b"\xf0\x9f", b"\x98\x80", "!"]
    s = server(says(chain, pieces))
    fields = {"prompt": "x", "temperature": 0}
    assert joined(s, **fields) == whole(s, **fields) == ("\U0001F600!", "stop")


def test_case_37_usage_chunk(rand):
    body = {"prompt": "a", "max_tokens": 5, "seed": 3, "temperature": 0.7}
    usage = rand.post("/v1/completions", body)[1]["usage"]
    for options, n in ((None, 0), ({"include_usage": False}, 0), ({"include_usage": True}, 1)):
        fields = dict(body, stream_options=options) if options is not None else body
        events = list(rand.stream("/v1/completions", fields))[:-1]
        empty = [e for e in events if e["choices"] == []]
        assert len(empty) == n
        if n:
            assert events[-1] is empty[0]
            assert empty[0]["usage"] == usage
            assert all(e["usage"] is None for e in events[:-1])
    status, answer = rand.post("/v1/completions", dict(body, stream=True, stream_options={
        "include_usage": "x"}))
    assert status == 400 and answer["error"]["param"] == "stream_options"
    status, _ = rand.post("/v1/completions", dict(body, stream_options={"include_usage": True}))
    assert status == 400


def test_case_38_chat_frames(hello):
    events = list(hello.stream(CHAT, {"messages": MESSAGES, "temperature": 0, "max_tokens": 3}))
    assert events[-1] == "[DONE]"
    deltas = [e["choices"][0]["delta"] for e in events[:-1]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert all("role" not in d for d in deltas[1:])
    assert deltas[-1] == {}
    assert "".join(d.get("content", "") for d in deltas) == "hello wor"
    assert events[-2]["choices"][0]["finish_reason"] == "length"
    assert all(e["choices"][0]["finish_reason"] is None for e in events[:-2])


def test_case_38_and_40_early_errors_are_plain(hello):
    begin = time.monotonic()
    for fields in ({"n": 0}, {"max_tokens": 0}, {"max_tokens": 10**6}, {"messages": []},
                   {"temperature": "x"}):
        status, body = hello.post(CHAT, dict({"messages": MESSAGES, "stream": True}, **fields))
        assert status == 400 and "error" in body
    assert time.monotonic() - begin < 1


def test_several_prompts_in_one_stream(rand):
    prompts = ["a", "the", "of"]
    text, finish = [""] * 3, [None] * 3
    for e in rand.stream("/v1/completions", {"prompt": prompts, "temperature": 0,
                                             "max_tokens": 8}):
        if e != "[DONE]":
            c = e["choices"][0]
            text[c["index"]] += c["text"]
            finish[c["index"]] = c["finish_reason"]
    assert None not in finish
    for p, t in zip(prompts, text):
        assert whole(rand, prompt=p, temperature=0, max_tokens=8)[0] == t


def test_token_ids_in_chunks(rand):
    body = {"prompt": "a", "temperature": 0, "max_tokens": 12, "return_token_ids": True}
    ids = rand.post("/v1/completions", body)[1]["choices"][0]["token_ids"]
    got = []
    for e in rand.stream("/v1/completions", body):
        if e != "[DONE]":
            got += e["choices"][0]["token_ids"]
    assert got == ids


def test_openai_client(hello):
    client = hello.openai()
    assert client.models.list().data[0].id == "chain"
    answer = client.chat.completions.create(model="chain", messages=MESSAGES, temperature=0)
    assert answer.choices[0].message.content == "hello world foo"
    assert answer.usage.completion_tokens == 6
    pieces = [c.choices[0].delta.content or "" for c in client.chat.completions.create(
        model="chain", messages=MESSAGES, temperature=0, stream=True)]
    assert "".join(pieces) == "hello world foo"
    last = list(client.chat.completions.create(model="chain", messages=MESSAGES, stream=True,
                                               stream_options={"include_usage": True}))[-1]
    assert last.usage.total_tokens > 0
    text = "".join(c.choices[0].text for c in client.completions.create(
        model="chain", prompt="x", temperature=0, stream=True))
    assert text == "hello world foo"
    answer = client.completions.create(model="chain", prompt="x", temperature=0, logprobs=1)
    assert len(answer.choices[0].logprobs.tokens) == 6
    import openai
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="nosuch", messages=MESSAGES)
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="chain", messages=MESSAGES, n=2)


def test_eight_at_a_time(rand):
    """Answers do not depend on what else runs."""
    def ask(i):
        fields = {"prompt": "the %d" % i, "seed": i, "temperature": 0.8, "max_tokens": 24}
        return joined(rand, **fields) if i % 2 else whole(rand, **fields)
    alone = [ask(i) for i in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == alone


def open_stream(server, **fields):
    """A raw connection, with a small receive buffer, on which a completion was asked for."""
    url = urllib.parse.urlparse(server.url)
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(30)
    s.connect((url.hostname, url.port))
    body = json.dumps(fields).encode()
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
              % (len(body), body))
    return s


def gauge(server, name):
    for line in server.get("/metrics")[1].splitlines():
        if line.startswith(name + "{"):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(name)


def falls_to_zero(server):
    for _ in range(200):
        if gauge(server, "vllm:num_requests_running") == 0:
            return True
        time.sleep(0.01)
    return False


def wait_running(server):
    for _ in range(500):
        if gauge(server, "vllm:num_requests_running") > 0:
            return True
        time.sleep(0.002)
    return False


@pytest.mark.parametrize("stream", [True, False])
def test_disconnect_cancels(server, chain, stream):
    """A client that leaves ends its request within a step, streamed or not."""
    s = server(endless(chain))
    conn = open_stream(s, prompt="x", max_tokens=300000, stream=stream, temperature=0)
    if stream:
        assert conn.recv(10)
    assert wait_running(s)
    conn.close()
    assert falls_to_zero(s)
    metrics = s.get("/metrics")[1]
    assert 'finished_reason="abort"} 1' in metrics
    generated = gauge(s, "vllm:generation_tokens_total")
    assert generated < 300000
    assert s.post("/v1/completions", {"prompt": "x", "max_tokens": 3})[0] == 200


def test_slow_reader_holds_its_own_request_only(server, chain):
    """A client that does not read stops its own sequence; others go on; memory stays bounded."""
    s = server(endless(chain))
    conn = open_stream(s, prompt="x", max_tokens=300000, stream=True, temperature=0,
                       logprobs=20)
    assert conn.recv(10)
    seen, stalled = -1, 0
    for _ in range(300):
        now = gauge(s, "vllm:generation_tokens_total")
        stalled = stalled + 1 if now == seen else 0
        seen = now
        if stalled > 5:
            break
        time.sleep(0.05)
    assert stalled > 5, "the engine kept on generating for a client that does not read"
    assert seen < 300000
    assert s.post("/v1/completions", {"prompt": "x", "max_tokens": 3})[0] == 200
    got = b""
    conn.settimeout(10)
    while len(got) < 2 << 20:
        got += conn.recv(1 << 20)
    assert gauge(s, "vllm:generation_tokens_total") > seen + 3  # it goes on
    conn.close()
    assert falls_to_zero(s)


def test_case_40_error_in_a_stream(server, chain):
    """A row of logits that is not finite: an error event, no reason, no [DONE], and an end."""
    import checkpoints
    import numpy as np
    pieces = ["one", "two"]
    _, tok = chain(checkpoints.script(pieces), pieces)
    rows = np.zeros((tok.size, tok.size))
    rows[:, tok.id("one")] = 50.0
    rows[tok.id("one"), :] = 5e39  # the product with the activation is beyond float32
    s = server(chain(rows, pieces)[0])
    conn = open_stream(s, prompt="x", max_tokens=8, stream=True, temperature=0)
    conn.settimeout(10)
    got = b""
    while True:
        try:
            piece = conn.recv(65536)
        except socket.timeout:
            pytest.fail("the stream was left open: %r" % got)
        if not piece:
            break
        got += piece
        if got.endswith(b"0\r\n\r\n"):
            break
    assert b'"error":{' in got
    assert b"[DONE]" not in got
    assert b'"finish_reason":"' not in got
    conn.close()
    assert s.get("/health")[0] == 200
    status, body = s.post("/v1/completions", {"prompt": "x", "max_tokens": 8, "temperature": 0})
    assert status == 500 and "error" in body
