# SPDX-License-Identifier: MIT
"""Request fields over HTTP: each is honoured, or refused with a 400 that names it.

One server with a chain model (its text is known) and one with a random model; every case row as it
stands in the collection of cases, by number.
"""
import json
import time

import pytest


@pytest.fixture(scope="module")
def hello(module_server, models):
    """Says "hello world foo" whatever the prompt."""
    return module_server(models / "chain", served_model_name="org/chain.1")


@pytest.fixture(scope="module")
def rand(module_server, models):
    return module_server(models / "llama-f32", max_model_len=64, served_model_name="rand")


def complete(server, prompt="Once", **fields):
    return server.post("/v1/completions", dict({"prompt": prompt}, **fields))


def text(server, **fields):
    status, body = complete(server, **fields)
    assert status == 200, body
    return body["choices"][0]["text"]


def refused(server, param, path="/v1/completions", **fields):
    body = fields if path.endswith("chat/completions") else dict({"prompt": "x"}, **fields)
    status, answer = server.post(path, body)
    assert status == 400, (fields, answer)
    error = answer["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["param"] == param, (fields, error)
    assert "\n" not in error["message"]
    return error


def test_known_text(hello):
    """The chain model's whole answer, its reason and its usage."""
    status, body = complete(hello, temperature=0)
    assert status == 200
    assert body["choices"][0]["text"] == "hello world foo"
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["choices"][0]["stop_reason"] is None
    assert body["usage"]["completion_tokens"] == 6  # five pieces and the end token
    assert body["model"] == "org/chain.1"


def test_case_22_tiny_temperatures_are_greedy(hello):
    greedy = text(hello, temperature=0, max_tokens=7)
    for t in (1e-12, 1e-6, 1e-5, 1e-4, 1e-3):
        assert text(hello, temperature=t, max_tokens=7) == greedy
    assert text(hello, temperature=1, top_p=1e-4, max_tokens=7) == greedy
    refused(hello, "temperature", temperature=-1)
    status, _ = hello.post("/v1/completions", b'{"prompt":"x","temperature":NaN}')
    assert status == 400


def test_case_23_top_k(rand):
    V = 100000
    same = {k: text(rand, top_k=k, seed=5, temperature=0.8, max_tokens=12) for k in (0, -1, V)}
    assert len(set(same.values())) == 1
    text(rand, top_k=1)
    for bad in (-2, "5", 1.5):
        refused(rand, "top_k", top_k=bad)
    for bad in (0, 1.1, -0.5):
        refused(rand, "top_p", top_p=bad)


def test_case_31_prompt_forms(rand):
    for bad in ([-1], [[-1]], [100000], [4294967294], [1.5], [True], ["a", 1], [], [[]]):
        error = refused(rand, "prompt", prompt=bad)
        if bad in ([-1], [100000], [4294967294]):
            assert str(bad[0]) in error["message"]
    assert complete(rand, [1, 2, 3])[0] == 200
    status, body = complete(rand, [[1, 2], [3]])
    assert status == 200 and [c["index"] for c in body["choices"]] == [0, 1]
    assert body["usage"]["prompt_tokens"] == 3
    status, body = complete(rand, ["a", "b", "c"], max_tokens=2)
    assert status == 200 and len(body["choices"]) == 3


def test_many_prompts_equal_single_ones(rand):
    """A list of prompts gives what each of them gives alone."""
    prompts = ["a", "the cat", "of the"]
    alone = [text(rand, prompt=p, temperature=0, max_tokens=9) for p in prompts]
    _, body = complete(rand, prompts, temperature=0, max_tokens=9)
    assert [c["text"] for c in body["choices"]] == alone


def test_case_50_messages(hello, server, models):
    chat = "/v1/chat/completions"
    for bad in ([], None, "x", [1], [{}], [{"role": "x"}], [{"role": "user"}]):
        refused(hello, "messages", chat, messages=bad)
    refused(hello, "messages", chat)
    status, _ = hello.post(chat, {"messages": [{"role": "user", "content": ""}]})
    assert status == 200
    strict = server(models / "chain", chat_template=(
        "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}"
        "{% endif %}{{ messages[0].content }}"))
    error = refused(strict, "messages", chat, messages=[{"role": "system", "content": "x"}])
    assert "System role not supported" in error["message"]
    assert strict.post(chat, {"messages": [{"role": "user", "content": "x"}]})[0] == 200
    assert strict.get("/health")[0] == 200


def test_case_61_malformed_bodies(hello):
    for body in (b"{:", b"", b"[]", b"null", b'{"a":1}x', b"\xef\xbb\xbf{}", b'{"prompt":"\xff"}',
                 b'{"prompt":"x","top_p":NaN}', b'{"prompt":"x","top_p":1e999}',
                 b'{"prompt":"x","prompt":"y"}'):
        for path in ("/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"):
            status, answer = hello.post(path, body)
            assert status == 400, (body, answer)
            assert answer["error"]["type"] == "BadRequestError"


def test_case_61_every_field_with_every_value(rand):
    fields = ["max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop",
              "stop_token_ids", "ignore_eos", "logprobs", "return_token_ids", "n", "echo", "suffix",
              "logit_bias", "presence_penalty", "response_format", "guided_json", "min_tokens",
              "model", "add_special_tokens", "user", "best_of", "repetition_penalty"]
    for field in fields:
        for value in (None, True, "x", [], {}, -1, 1e30):
            status, body = complete(rand, **dict({"max_tokens": 1}, **{field: value}))
            assert status in (200, 400, 404), (field, value, status, body)
            if value is None:
                assert status == 200, (field, body)
            if status != 200:
                assert body["error"]["param"] == field


def test_case_62_deep_nesting(hello):
    for depth, good in ((60, True), (65, False), (10000, False), (1000000, False)):
        nested = b"[" * depth + b"]" * depth
        for body in (b'{"prompt":"x","ignored":%s}', b'{"prompt":"x","tools":%s}'):
            begin = time.monotonic()
            status, _ = hello.post("/v1/completions", body % nested)
            assert status == (200 if good else 400)
            assert time.monotonic() - begin < 2
    status, _ = hello.post("/v1/chat/completions", b'{"messages":%s}' % (b"[" * 99 + b"]" * 99))
    assert status == 400
    status, _ = hello.post("/v1/completions", b'{"prompt":"' + b"x" * (17 << 20) + b'"}')
    assert status == 413
    assert hello.get("/health")[0] == 200


def test_case_64_model_names(hello):
    for name in ("x", ""):
        status, body = complete(hello, model=name)
        assert status == 404
        assert body["error"]["type"] == "NotFoundError" and body["error"]["param"] == "model"
        assert "org/chain.1" in body["error"]["message"]
    refused(hello, "model", model=5)
    assert complete(hello, model=None)[0] == 200
    assert complete(hello, model="org/chain.1")[0] == 200
    assert hello.get("/v1/chat/completions")[0] == 405
    status, body = hello.post("/v1/nosuch", {})
    assert status == 404 and "endpoint" in body["error"]["message"]
    status, body = hello.get("/v1/models")
    assert [m["id"] for m in body["data"]] == ["org/chain.1"]
    assert hello.get("/v1/models/org/chain.1")[1]["id"] == "org/chain.1"
    assert hello.get("/v1/models/org%2Fchain.1")[1]["id"] == "org/chain.1"
    assert hello.get("/v1/models/nosuch")[0] == 404
    assert hello.request("HEAD", "/v1/models", None, 10) == (200, "")


def count(server, prompt):
    return server.post("/tokenize", {"prompt": prompt})[1]["count"]


def test_case_65_and_14_lengths(rand):
    """Prompts around the limit of 64 tokens, with every kind of max_tokens."""
    for n in (62, 63, 64, 65, 10000):
        for max_tokens in (None, 1, 2, 64, 10**9):
            fields = {} if max_tokens is None else {"max_tokens": max_tokens}
            status, body = complete(rand, [5] * n, ignore_eos=True, **fields)
            asked = 16 if max_tokens is None else max_tokens
            if n + asked <= 64:
                assert status == 200
                assert body["usage"]["total_tokens"] == n + asked
                continue
            assert status == 400
            assert body["error"]["code"] == "context_length_exceeded"
            for number in (64, n, asked):
                assert str(number) in body["error"]["message"]


def test_case_14_rest_of_the_context_for_chats(rand):
    """Without max_tokens a chat goes on to the end of the context, and not further."""
    status, body = rand.post("/v1/chat/completions", {
        "messages": [{"role": "user", "content": "a"}], "ignore_eos": True})
    assert status == 200
    assert body["usage"]["total_tokens"] == 64
    assert body["choices"][0]["finish_reason"] == "length"
    status, body = rand.post("/v1/chat/completions", {
        "messages": [{"role": "user", "content": "many words " * 60}]})
    assert status == 400 and "64" in body["error"]["message"]
    assert body["error"]["param"] == "messages"


def test_case_71_odd_text(hello):
    raw = b'{"prompt":%s,"max_tokens":2,"temperature":0}'
    for prompt, good in ((b'"a\\u0000b"', True), (b'"\\ud83d\\ude00"', True),
                         (b'"\\ud83d"', False), (b'"\\ude00\\ud83d"', False)):
        status, _ = hello.post("/v1/completions", raw % prompt)
        assert status == (200 if good else 400)
    ids = hello.post("/tokenize", {"prompt": "a\0b"})[1]["tokens"]
    assert hello.post("/detokenize", {"tokens": ids})[1]["prompt"] == "a\0b"
    for bad in ("", [""], ["a", ""], [1], ["x"] * 100, "y" * (1 << 20)):
        refused(hello, "stop", stop=bad)
    assert text(hello, stop=[], temperature=0) == "hello world foo"
    assert text(hello, stop=None, temperature=0) == "hello world foo"


def test_unsupported_fields_name_themselves(hello):
    chat = "/v1/chat/completions"
    messages = [{"role": "user", "content": "x"}]
    for field, value in (("n", 2), ("tools", [{"type": "function"}]), ("logit_bias", {"5": 1}),
                         ("response_format", {"type": "json_object"}), ("min_tokens", 3),
                         ("presence_penalty", 0.5), ("repetition_penalty", 1.1), ("echo", True),
                         ("prompt_logprobs", 1), ("guided_regex", "a+"), ("top_logprobs", 2)):
        refused(hello, field, chat, messages=messages, **{field: value})
    status, _ = hello.post(chat, {
        "messages": messages, "n": 1, "presence_penalty": 0, "frequency_penalty": 0,
        "repetition_penalty": 1.0, "user": "u", "response_format": {"type": "text"},
        "logit_bias": None, "unknown_field": [1]})
    assert status == 200


def test_ignore_eos_and_stop_tokens(hello):
    """The end token and a chosen stop token: reasons, and what counts as used."""
    _, body = complete(hello, temperature=0, ignore_eos=True, max_tokens=9)
    assert body["usage"]["completion_tokens"] == 9
    assert body["choices"][0]["finish_reason"] == "length"
    ids = hello.post("/tokenize", {"prompt": " wor"})[1]["tokens"]
    assert len(ids) == 1
    _, body = complete(hello, temperature=0, stop_token_ids=ids)
    choice = body["choices"][0]
    assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == (
        "hello", "stop", ids[0])
    assert body["usage"]["completion_tokens"] == 3


def test_logprobs(rand):
    _, body = complete(rand, temperature=0, max_tokens=4, logprobs=3, ignore_eos=True,
                       return_token_ids=True)
    lp = body["choices"][0]["logprobs"]
    assert len(lp["tokens"]) == len(lp["token_logprobs"]) == len(lp["text_offset"]) == 4
    assert all(v <= 0 for v in lp["token_logprobs"])
    for value, top in zip(lp["token_logprobs"], lp["top_logprobs"]):
        assert max(top.values()) == value  # greedy takes the likeliest
    assert len(body["choices"][0]["token_ids"]) == 4
    _, body = rand.post("/v1/chat/completions", {
        "messages": [{"role": "user", "content": "a"}], "max_tokens": 4, "temperature": 0,
        "logprobs": True, "top_logprobs": 2, "ignore_eos": True})
    content = body["choices"][0]["logprobs"]["content"]
    assert len(content) == 4
    for entry in content:
        assert len(entry["top_logprobs"]) == 2
        assert entry["top_logprobs"][0]["logprob"] == entry["logprob"]
    refused(rand, "logprobs", logprobs=21)
    error = rand.post("/v1/chat/completions", {
        "messages": [{"role": "user", "content": "a"}], "logprobs": True, "top_logprobs": 21})[1]
    assert error["error"]["param"] == "top_logprobs"


def test_tokenize_both_forms(hello):
    vllm = hello.post("/tokenize", {"prompt": "hello", "return_token_strs": True})[1]
    assert vllm["count"] == len(vllm["tokens"]) == len(vllm["token_strs"])
    assert "".join(vllm["token_strs"]) == "hello"
    llama = hello.post("/tokenize", {"content": "hello", "with_pieces": True})[1]
    assert [t["id"] for t in llama["tokens"]] == vllm["tokens"]
    both = hello.post("/detokenize", {"tokens": vllm["tokens"]})[1]
    assert both == {"prompt": "hello", "content": "hello"}
    chat = hello.post("/tokenize", {"messages": [{"role": "user", "content": "hi"}]})[1]
    assert "user" in hello.post("/detokenize", {"tokens": chat["tokens"]})[1]["prompt"]
    assert hello.post("/detokenize", {"tokens": [10**6]})[0] == 400


def test_the_line_of_the_issue(hello):
    """system, user, assistant and user, with the parameters that the issue names."""
    body = {"model": "org/chain.1", "max_tokens": 100, "top_k": -1, "top_p": 1, "temperature": 0,
            "ignore_eos": False, "stream": False, "messages": [
                {"role": "system", "content": "You are a helpful assistant."},
                {"role": "user", "content": "Who won?"},
                {"role": "assistant", "content": "They did."},
                {"role": "user", "content": "Where was it?"}]}
    status, answer = hello.post("/v1/chat/completions", json.dumps(body).encode())
    assert status == 200
    assert answer["choices"][0]["message"]["content"] == "hello world foo"
