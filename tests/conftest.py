# SPDX-License-Identifier: MIT
"""Fixtures of the end-to-end tests: the binary, test checkpoints, servers, offline runs.

BT_BIN names the binary (default build/src/cmd/betoken), BT_SHARED the folder of real checkpoints
and goldens (default ../shared beside the repository), BT_FIXTURES a folder in which the test
checkpoints are kept between runs. Everything else is made in temporary folders.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fixtures"))

START_SECONDS = float(os.environ.get("BT_START_SECONDS", "120"))
STOP_SECONDS = 30


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes long; run by make test-all only")


@pytest.fixture(scope="session")
def binary():
    """Path of betoken; without it nothing here can pass, so its absence is an error."""
    path = pathlib.Path(os.environ.get("BT_BIN", ROOT / "build/src/cmd/betoken")).resolve()
    if not os.access(path, os.X_OK):
        pytest.fail("the binary %s is missing; run make first" % path)
    return str(path)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Folder with the standard checkpoints of tests/fixtures/make_models.py, one a sub-folder."""
    import make_models
    out = pathlib.Path(os.environ.get("BT_FIXTURES") or tmp_path_factory.mktemp("models"))
    make_models.make_standard(str(out))
    return out


@pytest.fixture(scope="session")
def shared():
    path = pathlib.Path(os.environ.get("BT_SHARED", ROOT.parent / "shared"))
    if not (path / "data").is_dir():
        pytest.skip("no shared data at %s (set BT_SHARED)" % path)
    return path


@pytest.fixture(scope="session")
def default_model():
    """Path of the default model, fetched when it is not cached."""
    r = subprocess.run([str(ROOT / "tools/get-model")], stdin=subprocess.DEVNULL,
                       capture_output=True, text=True)
    if r.returncode != 0:
        pytest.skip("the default model cannot be fetched: " + r.stderr.strip().split("\n")[0])
    return r.stdout.strip()


@pytest.fixture
def chain(tmp_path):
    """chain(table, tokens=(), **options) -> path, tokenizer: an M1 model made for one test."""
    import checkpoints
    made = []

    def make(table, tokens=(), **options):
        path = tmp_path / ("chain%d" % len(made))
        made.append(path)
        return str(path), checkpoints.chain_model(str(path), table, tokens, **options)
    return make


def arguments(options):
    """Command line of {name: value}: True is a bare flag, False and None are left out."""
    out = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            out.append(flag)
        elif isinstance(value, (dict, list)):
            out += [flag, json.dumps(value)]
        elif value is not None and value is not False:
            out += [flag, str(value)]
    return out


class Server:
    """A running `betoken serve`. `url` is http://HOST:PORT, `log()` everything it has printed."""

    def __init__(self, command, env=None):
        self.command = command
        self.lines = []
        self.url = None
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", env=dict(os.environ, **(env or {})))
        self._seen = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            found = re.search(r"http://(\[[^\]]+\]|[^\s:/]+):(\d+)", line)
            if found and not self.url:
                host = found.group(1)
                host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
                self.url = "http://%s:%s" % (host, found.group(2))
                self._seen.set()
        self._seen.set()  # end of output: the process is gone

    def log(self):
        return "".join(self.lines)

    def wait_ready(self):
        end = time.monotonic() + START_SECONDS
        self._seen.wait(START_SECONDS)
        while time.monotonic() < end and self.url and self.process.poll() is None:
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=5) as r:
                    if r.status == 200:
                        return self
            except (urllib.error.URLError, OSError):
                pass  # 503 while weights load
            time.sleep(0.02)
        self.kill()
        pytest.fail("the server did not get ready: %s\n%s" % (" ".join(self.command), self.log()))

    def post(self, path, body, timeout=120):
        """(status, decoded JSON) of a POST; body is an object, or bytes sent as they are."""
        return self.request("POST", path, body, timeout)

    def get(self, path, timeout=30):
        return self.request("GET", path, None, timeout)

    def request(self, method, path, body, timeout):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        req = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"},
                                     method=method)
        try:
            with urllib.request.urlopen(req, timeout=timeout) as r:
                status, raw = r.status, r.read()
        except urllib.error.HTTPError as e:
            status, raw = e.code, e.read()
        try:
            return status, json.loads(raw)
        except ValueError:
            return status, raw.decode("utf-8", "replace")

    def stream(self, path, body, timeout=120):
        """The data of each event of a streamed answer: objects, and "[DONE]" as text."""
        data = json.dumps(dict(body, stream=True)).encode()
        req = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(req, timeout=timeout) as r:
            assert r.headers["Content-Type"].startswith("text/event-stream")
            for line in r:
                if line.startswith(b"data:"):
                    text = line[5:].strip().decode()
                    yield text if text == "[DONE]" else json.loads(text)

    def openai(self):
        """The official client, pointed at this server."""
        import openai
        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=120)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(5)

    def stop(self):
        """SIGTERM; the exit status must be 0."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail("the server did not stop within %d s of SIGTERM\n%s"
                        % (STOP_SECONDS, self.log()))
        self._reader.join(5)
        if status != 0:
            pytest.fail("the server ended with status %d\n%s" % (status, self.log()))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Remember the outcome on the item, so that servers print their log after a failure only."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        item.bt_failed = True


def server_factory(request, binary):
    running = []

    def start(model=None, *extra, env=None, wait=True, **options):
        """Start `betoken serve --port 0`; options by name (underscores), extra as they are."""
        options.setdefault("host", "127.0.0.1")
        options.setdefault("port", 0)
        command = [binary, "serve"] + arguments(dict({"model": model}, **options)) + list(extra)
        s = Server(command, env)
        running.append(s)
        return s.wait_ready() if wait else s

    yield start
    faults = []
    for s in running:
        if getattr(request.node, "bt_failed", False):
            print("---- log of %s\n%s" % (" ".join(s.command), s.log()))
        try:
            s.stop()
        except pytest.fail.Exception as e:
            faults.append(str(e))
    if faults:
        pytest.fail("\n".join(faults))


@pytest.fixture
def server(request, binary):
    """server(model, **options) -> Server, stopped and checked after the test. A test that expects
    the server to fail starts it with wait=False and calls kill() or reads process.wait()."""
    yield from server_factory(request, binary)


@pytest.fixture(scope="module")
def module_server(request, binary):
    """The same for servers that a whole test file shares."""
    yield from server_factory(request, binary)


@pytest.fixture(scope="session")
def run(binary):
    """run(*arguments) -> CompletedProcess with text output; never raises on a bad status."""
    def call(*args, timeout=120, env=None, stdin=None):
        return subprocess.run([binary] + [str(a) for a in args], capture_output=True, text=True,
                              errors="replace", timeout=timeout, input=stdin or "",
                              env=dict(os.environ, **(env or {})))
    return call


@pytest.fixture
def generate(run, tmp_path):
    """generate(model, prompts, **options) -> one object a prompt, from `betoken generate --json`.

    prompts: a text, or a list of texts, id lists and request objects (lines of --prompts).
    """
    calls = []

    def call(model, prompts, timeout=300, env=None, **options):
        if isinstance(prompts, (str, dict)):
            prompts = [prompts]
        lines = []
        for p in prompts:
            if isinstance(p, str):
                p = {"prompt": p}
            elif isinstance(p, list):
                p = {"prompt_token_ids": p}
            lines.append(json.dumps(p))
        calls.append(None)
        path = tmp_path / ("prompts%d.jsonl" % len(calls))
        path.write_text("\n".join(lines) + "\n")
        r = run("generate", "--json", "--prompts", path, *arguments(dict({"model": model},
                                                                         **options)),
                timeout=timeout, env=env)
        if r.returncode != 0:
            pytest.fail("betoken generate ended with status %d:\n%s" % (r.returncode, r.stderr))
        out = [json.loads(line) for line in r.stdout.splitlines() if line.strip()]
        assert len(out) == len(prompts), r.stdout + r.stderr
        return out
    return call
