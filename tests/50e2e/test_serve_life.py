# SPDX-License-Identifier: MIT
"""The life of `betoken serve`: ports, loading, signals, the queue, counters, the log."""
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.parse

import pytest


def endless(chain, pieces=("la", "li"), **config):
    """A checkpoint that never stops."""
    import checkpoints
    return chain(checkpoints.script(list(pieces), eos=pieces[0]), list(pieces),
                 eos="<|endoftext|>", **config)[0]


def metric(server, name, **labels):
    for line in server.get("/metrics")[1].splitlines():
        if line.startswith(name + "{") and all('%s="%s"' % kv in line for kv in labels.items()):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(name)


def wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return False


def test_case_79_port_in_use(server, models, run, binary):
    """The second server ends within a second, names host and port, and says so before it loads."""
    first = server(models / "chain")
    port = urllib.parse.urlparse(first.url).port
    begin = time.monotonic()
    r = run("serve", "--model", models / "chain", "--port", port)
    assert time.monotonic() - begin < 1
    assert r.returncode != 0
    assert "127.0.0.1:%d" % port in r.stderr and r.stdout == ""
    assert first.get("/health")[0] == 200
    for bad in ("70000", "-1", "x"):
        r = run("serve", "--model", models / "chain", "--port", bad)
        assert r.returncode != 0 and "port" in r.stderr


def test_case_79_restart_at_once(server, models):
    """kill -9 and start again on the same port, with connections left open."""
    s = server(models / "chain")
    port = urllib.parse.urlparse(s.url).port
    conns = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
    s.process.send_signal(signal.SIGKILL)
    s.process.wait()
    again = subprocess.Popen([s.command[0], "serve", "--model", str(models / "chain"), "--port",
                              str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = again.stdout.readline()
    again.send_signal(signal.SIGTERM)
    _, err = again.communicate(timeout=20)
    assert re.match(r"betoken \S+ serving \S+ on http://127.0.0.1:%d$" % port, line), err
    assert again.returncode == 0
    for c in conns:
        c.close()
    s.stop = lambda: None  # it was killed on purpose


def test_case_79_health_while_loading(binary, tmp_path, models):
    """The port answers 503 while weights are read; SIGTERM then ends the process with 0. A FIFO in
    the place of the weights makes loading last."""
    import shutil
    folder = tmp_path / "slow"
    shutil.copytree(models / "chain", folder)
    os.unlink(folder / "generation_config.json")
    os.mkfifo(folder / "generation_config.json")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    p = subprocess.Popen([binary, "serve", "--model", str(folder), "--port", str(port)],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def status(path):
        import urllib.error
        import urllib.request
        try:
            with urllib.request.urlopen("http://127.0.0.1:%d%s" % (port, path), timeout=5) as r:
                return r.status
        except urllib.error.HTTPError as e:
            return e.code
        except OSError:
            return None
    try:
        if not wait_for(lambda: status("/health") is not None or p.poll() is not None, 10):
            pytest.fail("the port was not bound")
        if p.poll() is not None:
            pytest.skip("a FIFO among the files is refused, so loading cannot be held up this way")
        assert status("/health") == 503
        assert status("/v1/models") == 503
        assert status("/version") == 200
        p.send_signal(signal.SIGTERM)
        assert p.wait(5) == 0
    finally:
        p.kill()
        p.wait()


def test_sigterm_lets_running_requests_finish(server, chain):
    s = server(endless(chain))
    result = {}

    def ask():
        result["answer"] = s.post("/v1/completions", {"prompt": "x", "max_tokens": 2000,
                                                      "temperature": 0})
    thread = threading.Thread(target=ask)
    thread.start()
    wait_for(lambda: metric(s, "vllm:num_requests_running") > 0 or "answer" in result)
    s.process.send_signal(signal.SIGTERM)
    thread.join(30)
    assert s.process.wait(30) == 0
    status, body = result["answer"]
    assert status == 200 and body["usage"]["completion_tokens"] == 2000


def test_second_signal_ends_at_once(server, chain):
    s = server(endless(chain, max_position_embeddings=400000))
    url = urllib.parse.urlparse(s.url)
    conn = socket.create_connection((url.hostname, url.port))
    body = json.dumps({"prompt": "x", "max_tokens": 300000}).encode()
    conn.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
                 + body)
    assert wait_for(lambda: metric(s, "vllm:num_requests_running") > 0)
    s.process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert s.process.poll() is None
    s.process.send_signal(signal.SIGINT)
    assert s.process.wait(2) == 128 + signal.SIGINT
    conn.close()
    s.stop = lambda: None


def test_bad_model_is_one_line(run, tmp_path):
    r = run("serve", "--model", tmp_path / "nosuch", "--port", 0)
    assert r.returncode != 0 and "nosuch" in r.stderr
    assert len([line for line in r.stderr.splitlines() if line.startswith("betoken: ")]) == 1


def test_full_queue_is_429(server, chain):
    """One runs, one waits, the rest is sent away with Retry-After; all is well afterwards."""
    s = server(endless(chain, max_position_embeddings=400000), max_num_seqs=1,
               max_queued_requests=1)
    url = urllib.parse.urlparse(s.url)
    body = json.dumps({"prompt": "x", "max_tokens": 100000, "temperature": 0}).encode()
    raw = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    conns = []
    for _ in range(2):
        conns.append(socket.create_connection((url.hostname, url.port), timeout=10))
        conns[-1].sendall(raw)
        n = len(conns)
        assert wait_for(lambda: metric(s, "vllm:num_requests_running")
                        + metric(s, "vllm:num_requests_waiting") >= n)
    third = socket.create_connection((url.hostname, url.port), timeout=10)
    third.sendall(raw)
    answer = third.recv(65536)
    assert answer.startswith(b"HTTP/1.1 429 ") and b"Retry-After: " in answer
    for c in conns + [third]:
        c.close()
    assert wait_for(lambda: metric(s, "vllm:num_requests_running") == 0
                    and metric(s, "vllm:num_requests_waiting") == 0)
    assert s.post("/v1/completions", {"prompt": "x", "max_tokens": 2})[0] == 200
    # More prompts than could ever run and wait are no matter of trying later.
    status, body = s.post("/v1/completions", {"prompt": ["x"] * 3, "max_tokens": 2})
    assert status == 400 and body["error"]["param"] == "prompt"


def test_one_log_line_a_request(server, models):
    s = server(models / "chain")
    secret = "a very private prompt"
    _, body = s.post("/v1/completions", {"prompt": secret, "temperature": 0})
    assert wait_for(lambda: body["id"] in s.log())
    line = [one for one in s.log().splitlines() if body["id"] in one]
    assert len(line) == 1
    for part in ("completion_tokens=6", "first_token_ms=", "tokens_per_s=", "accepted=0/0",
                 "finish=stop"):
        assert part in line[0]
    assert secret not in s.log()


def test_case_83_counters(server, models):
    """A draft that is wrong after "lo": the counters are the hand-computed ones.

    The target says hel lo _wor ld _foo <end>; the draft agrees but after "lo" (it says _bar, and
    the script's first piece after that). With 4 candidates a step: step 1 drafts hel lo _bar hel,
    of which two are kept, and _wor is the target's own; step 2 drafts ld _foo <end>, which are all
    kept. The prompt's pass may give the first token alone; both ways drafted, accepted and steps
    add up to the tokens generated.
    """
    s = server(models / "chain", speculative_model=models / "chain-draft",
               num_speculative_tokens=4)
    n = 10
    for _ in range(n):
        _, body = s.post("/v1/completions", {"prompt": "x", "temperature": 0})
        assert body["choices"][0]["text"] == "hello world foo"
        spec = body["usage"]["speculation"]
        assert body["usage"]["completion_tokens"] == spec["accepted"] + spec["steps"] or \
            body["usage"]["completion_tokens"] == spec["accepted"] + spec["steps"] - 1
        assert 0 < spec["accepted"] < spec["drafted"]
    assert metric(s, "vllm:generation_tokens_total") == 6 * n
    assert metric(s, "vllm:spec_decode_num_draft_tokens_total") == spec["drafted"] * n
    assert metric(s, "vllm:spec_decode_num_accepted_tokens_total") == spec["accepted"] * n
    per_position = [metric(s, "vllm:spec_decode_num_accepted_tokens_per_pos_total", position=i)
                    for i in range(4)]
    assert sum(per_position) == spec["accepted"] * n
    assert per_position == sorted(per_position, reverse=True)
    assert metric(s, "vllm:request_success_total", finished_reason="stop") == n
    assert metric(s, "vllm:num_requests_running") == 0
    assert metric(s, "vllm:num_requests_waiting") == 0


def test_case_83_counters_never_fall(server, models):
    s = server(models / "llama-f32", speculative_model=models / "llama-bad",
               num_speculative_tokens=3)
    stop = threading.Event()

    def load():
        while not stop.is_set():
            s.post("/v1/completions", {"prompt": "a", "max_tokens": 20})
    threads = [threading.Thread(target=load) for _ in range(3)]
    for t in threads:
        t.start()
    last = {}
    for _ in range(100):
        for line in s.get("/metrics")[1].splitlines():
            if not line.startswith("#") and re.search(r"_(total|count|bucket)\{", line):
                key, value = line.rsplit(" ", 1)
                assert float(value) >= last.get(key, 0), key
                last[key] = float(value)
    stop.set()
    for t in threads:
        t.join()


@pytest.mark.parametrize("draft", ["llama-f32", "llama-bad", "llama-small"])
def test_speculation_does_not_change_a_byte(server, models, draft):
    """Greedy and seeded answers over HTTP with a good, a bad and a small draft."""
    plain = server(models / "llama-f32")
    spec = server(models / "llama-f32", speculative_model=models / draft, num_speculative_tokens=4)
    for i in range(10):
        for sampling in ({"temperature": 0}, {"temperature": 0.8, "seed": i}):
            fields = dict({"prompt": "the %d" % i, "max_tokens": 40, "ignore_eos": True}, **sampling)
            a = plain.post("/v1/completions", fields)[1]
            b = spec.post("/v1/completions", fields)[1]
            assert a["choices"] == b["choices"]
            used = b["usage"]["speculation"]
            assert used["drafted"] > 0
            if draft == "llama-f32":
                assert used["accepted"] == used["drafted"]


def test_case_13_context_ends_under_speculation(server, models):
    """The context, and the shorter one of the draft, end in the middle of a draft."""
    plain = server(models / "llama-f32", max_model_len=64)
    spec = server(models / "llama-f32", max_model_len=64, speculative_model=models / "llama-short",
                  num_speculative_tokens=8)
    for n in (5, 20, 58, 60, 63):
        fields = {"prompt": [7] * n, "max_tokens": 64 - n, "temperature": 0, "ignore_eos": True}
        a, b = (s.post("/v1/completions", fields)[1] for s in (plain, spec))
        assert a["choices"] == b["choices"]
        assert b["choices"][0]["finish_reason"] == "length"
        assert b["usage"]["total_tokens"] == 64


def test_real_model(server, shared):
    """A trained model tells its story, the same with itself as the draft."""
    path = shared / "data/models/stories260k"
    if not path.is_dir():
        pytest.skip("no stories260k in %s" % shared)
    plain = server(path)
    spec = server(path, speculative_model=path, num_speculative_tokens=5)
    fields = {"prompt": "Once upon a time", "max_tokens": 60, "temperature": 0}
    a, b = (s.post("/v1/completions", fields)[1] for s in (plain, spec))
    assert a["choices"] == b["choices"]
    assert "there was" in a["choices"][0]["text"]
    assert b["usage"]["speculation"]["accepted"] == b["usage"]["speculation"]["drafted"] > 0
