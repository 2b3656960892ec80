# SPDX-License-Identifier: MIT
"""Goal: the engine's share of the case list (vocabularies, stops, limits, seeds, sampling values),
with and without drafts. Method: `betoken generate` on models whose next token is scripted, and on
random ones; each test carries its case's number."""
import codecs
import json
import random
import shutil

import pytest

import make_models

PIECES = make_models.CHAIN_PIECES


def script(*pieces, **options):
    import checkpoints
    return checkpoints.script(list(pieces), **options)


@pytest.fixture
def attempt(run, tmp_path):
    """attempt(model, requests, **options) -> (status, objects, stderr); errors are results."""
    from conftest import arguments
    calls = []

    def call(model, requests, env=None, timeout=60, **options):
        calls.append(None)
        path = tmp_path / ("attempt%d.jsonl" % len(calls))
        path.write_text("".join(r if isinstance(r, str) else json.dumps(r) + "\n"
                                for r in requests))
        r = run("generate", "--json", "--prompts", path, "--log-level", "error",
                *arguments(dict({"model": model}, **options)), env=env, timeout=timeout)
        return r.returncode, [json.loads(x) for x in r.stdout.splitlines() if x.strip()], r.stderr
    return call


def both(generate, model, requests, draft=None, k=6, **options):
    """Answers without and with drafts, after checking that they are equal."""
    plain = generate(model, requests, **options)
    spec = generate(model, requests, speculative_model=draft or model, num_speculative_tokens=k,
                    **options)
    for a, b in zip(plain, spec):
        assert (a["text"], a["token_ids"], a["finish_reason"]) == \
            (b["text"], b["token_ids"], b["finish_reason"])
    return plain


def greedy(prompt="p", **more):
    return dict({"prompt": prompt, "temperature": 0, "max_tokens": 32}, **more)


# --- case 1: one tokenizer, padded tables of different height ----------------------------------

@pytest.mark.parametrize("target,draft", [("llama-padded", "llama-f32"),
                                          ("llama-f32", "llama-padded"),
                                          ("llama-padded", "llama-padded"),
                                          ("llama-padded", "llama-small")])
def test_case_1_padded_vocabulary(generate, models, target, draft):
    """Greedy and sampled output equal the run without a draft; 500 tokens at temperature 1."""
    lines = [greedy("The small river", max_tokens=60, ignore_eos=True),
             {"prompt": "There is", "temperature": 1, "seed": 5, "max_tokens": 500,
              "ignore_eos": True},
             {"prompt": "x", "temperature": 2, "seed": 6, "max_tokens": 200, "ignore_eos": True}]
    out = both(generate, str(models / target), lines, str(models / draft), 5)
    assert [len(x["token_ids"]) for x in out] == [60, 500, 200]


@pytest.mark.parametrize("target,draft", [("llama-padded", "llama-f32"),
                                          ("llama-f32", "llama-padded")])
def test_case_1_padded_vocabulary_rejection(generate, models, target, draft):
    lines = [{"prompt": "There is", "temperature": 1, "seed": s, "max_tokens": 300,
              "ignore_eos": True} for s in range(4)]
    out = generate(str(models / target), lines, speculative_model=models / draft,
                   num_speculative_tokens=5, spec_decoding_acceptance_method="rejection_sampler")
    assert all(len(x["token_ids"]) == 300 for x in out)


def test_case_1_padding_ids_have_no_text(generate, chain):
    """A row beyond the tokenizer can be the target's choice: it decodes to nothing."""
    import checkpoints
    table = dict(checkpoints.script(["hel", "lo"]))
    model, tok = chain(table, ["hel", "lo"], pad_rows=8)
    pad = tok.size + 3
    logits = checkpoints.chain_logits(tok, table, tok.size + 8)
    logits[tok.id("hel")] = 0
    logits[tok.id("hel"), pad] = 12
    logits[pad] = 0
    logits[pad, tok.id("lo")] = 12
    model, tok = chain(logits, ["hel", "lo"], pad_rows=8)
    out = both(generate, model, [greedy()])[0]
    assert out["token_ids"] == [tok.id("hel"), pad, tok.id("lo"), tok.id("<|endoftext|>")]
    assert out["text"] == "hello"


# --- case 2: which tokenizers go together -------------------------------------------------------

def swap_tokens(folder, a, b):
    path = folder / "tokenizer.json"
    data = json.loads(path.read_text())
    vocab = data["model"]["vocab"]
    vocab[a], vocab[b] = vocab[b], vocab[a]
    path.write_text(json.dumps(data))
    return min(vocab[a], vocab[b])


def test_case_2_other_tokenizer_is_refused(attempt, models, tmp_path):
    """Exit status 2 and one line with the first id that differs and both texts."""
    draft = tmp_path / "draft"
    shutil.copytree(models / "llama-small", draft)
    first = swap_tokens(draft, "x", "q")
    status, out, err = attempt(str(models / "llama-f32"), [greedy()], speculative_model=draft)
    assert status == 2 and out == [] and len(err.splitlines()) == 1, err
    assert str(draft) in err and str(first) in err and "x" in err and "q" in err


@pytest.mark.parametrize("change", [{"pad_token": "<|im_end|>"}, {"add_bos_token": True},
                                    {"model_max_length": 77}])
def test_case_2_harmless_differences_are_accepted(generate, models, tmp_path, change):
    target, draft = models / "llama-f32", tmp_path / "draft"
    shutil.copytree(models / "llama-small", draft)
    path = draft / "tokenizer_config.json"
    path.write_text(json.dumps(dict(json.loads(path.read_text()), **change)))
    lines = [greedy("There is a dog", ignore_eos=True, seed=1)]
    with_change = generate(str(target), lines, speculative_model=draft, num_speculative_tokens=4)
    without = generate(str(target), lines, speculative_model=models / "llama-small",
                       num_speculative_tokens=4)
    assert with_change == without


def test_case_2_another_family_is_refused(attempt, models):
    status, out, err = attempt(str(models / "llama-f32"), [greedy()],
                               speculative_model=models / "llama-spm")
    assert status == 2 and out == [] and len(err.splitlines()) == 1 and "token" in err


# --- cases 4, 5, 34, 35: stops ------------------------------------------------------------------

@pytest.mark.parametrize("max_tokens,text,finish,n", [(5, "t1t2", "stop", 3), (2, "t1t2", "length", 2),
                                                      (3, "t1t2", "stop", 3)])
def test_case_4_stop_near_the_limit(generate, chain, max_tokens, text, finish, n):
    pieces = ["t1", "t2", "S!", "t4", "t5", "t6"]
    model, _ = chain(script(*pieces), pieces)
    out = both(generate, model, [greedy(stop=["S!"], max_tokens=max_tokens)])[0]
    assert (out["text"], out["finish_reason"], len(out["token_ids"])) == (text, finish, n)


@pytest.mark.parametrize("k", [1, 2, 3, 8])
def test_case_5_stop_across_tokens(generate, models, k):
    model = str(models / "chain")
    out = both(generate, model, [greedy(stop=["lo w"])], k=k)[0]
    assert (out["text"], out["finish_reason"], len(out["token_ids"])) == ("hel", "stop", 3)


def test_case_5_sampled_stops(generate, models):
    """50 seeds at temperature 1: no stop in the text, nothing after the completing token."""
    model, draft = str(models / "llama-f32"), models / "llama-small"
    stops = ["the", "er ", " a", "\ufffd\ufffd"]
    lines = [{"prompt": "There is a", "temperature": 1, "seed": s, "max_tokens": 60, "stop": stops}
             for s in range(50)]
    out = both(generate, model, lines, draft, 8)
    assert sum(x["finish_reason"] == "stop" for x in out) > 10
    again = generate(model, lines, speculative_model=draft, num_speculative_tokens=8)
    free = generate(model, [dict(x, stop=[]) for x in lines])
    for x, y, whole in zip(out, again, free):
        assert x["token_ids"] == y["token_ids"] and x["text"] == y["text"]
        assert not any(s in x["text"] for s in stops)
        assert whole["token_ids"][:len(x["token_ids"])] == x["token_ids"]


@pytest.mark.parametrize("pieces,stop,text,finish", [
    (["The quick br", "own fox"], ["own fox"], "The quick br", "stop"),
    (["a", "\nUs", "\n", "\nb"], ["\nUser:", "\n\n"], "a\nUs", "stop"),
    (["aa", "ab", "c"], ["aab"], "a", "stop"),
    (["Obs", "tacle"], ["Observation:"], "Obstacle", "stop"),
    (["Ob", "s"], ["Observation:"], "Obs", "stop"),
    (["x", "yx", "yz", "w"], ["yz", "xyz"], "xy", "stop"),
    (["\u00e9", b"\xf0\x9f", b"\x98\x80", "z"], ["\U0001f600"], "\u00e9", "stop"),
])
def test_case_34_35_stop_strings(generate, chain, pieces, stop, text, finish):
    model, _ = chain(script(*pieces), pieces)
    for k in (1, 2, 6):
        out = both(generate, model, [greedy("#", stop=stop)], k=k)[0]
        assert (out["text"], out["finish_reason"]) == (text, finish)


def test_case_35_limit_inside_a_stop_string(generate, chain):
    pieces = ["Obs", "erv", "ation:"]
    model, _ = chain(script(*pieces), pieces)
    out = both(generate, model, [greedy("#", stop=["Observation:"], max_tokens=2)])[0]
    assert (out["text"], out["finish_reason"]) == ("Observ", "length")


def reference(pieces, stops, max_tokens):
    """What one token at a time gives: pieces (None: end) -> text, finish reason, tokens."""
    decoder, text = codecs.getincrementaldecoder("utf-8")("replace"), ""
    for n, piece in enumerate(pieces, 1):
        if piece is None:
            return text + decoder.decode(b"", True), "stop", n
        text += decoder.decode(piece)
        hits = [text.find(s) for s in stops if s in text]
        if hits:
            return text[:min(hits)], "stop", n
        if n == max_tokens:
            return text + decoder.decode(b"", True), "length", n
    raise AssertionError("the script is too short")


def test_case_35_random_stops(generate, chain):
    """1,000 random scripts, stops and lengths against the whole-string reference."""
    rng = random.Random(35)
    texts = {a + b + c for a in "abc" for b in ["", "a", "b", "c"] for c in ["", "a", "b"]}
    pieces = sorted(t.encode() for t in texts) + [b"\xf0\x9f", b"\x98\x80", "\u00e9".encode(),
                                                  b"\xc3", b"\xa9b", b"\x80"]
    follows = {p: None if rng.random() < 0.08 else rng.choice(pieces) for p in pieces}
    follows[b"\xf0\x9f"], follows[b"\xc3"] = b"\x98\x80", b"\xa9b"
    table = {p: f if f is not None else "<|endoftext|>" for p, f in follows.items()}
    model, tok = chain(dict(table, **{}), [p for p in pieces if len(p) > 1])
    lines, want = [], []
    for _ in range(1000):
        start, script_of = rng.choice(pieces), []
        p = follows[start]
        while len(script_of) < 24:
            script_of.append(p)
            if p is None:
                break
            p = follows[p]
        stops = ["".join(rng.choice(["a", "b", "c", "ab", "\u00e9", "\U0001f600"])
                         for _ in range(rng.randrange(1, 5))) for _ in range(rng.randrange(0, 4))]
        most = rng.randrange(1, 25)
        lines.append({"prompt_token_ids": [tok.id(start)], "temperature": 0, "max_tokens": most,
                      "stop": stops})
        want.append(reference(script_of, stops, most))
    out = both(generate, model, lines, k=5)
    for line, x, w in zip(lines, out, want):
        assert (x["text"], x["finish_reason"], len(x["token_ids"])) == w, line


# --- case 11: seeds ------------------------------------------------------------------------------

def test_case_11_seeds(generate, models):
    """Seed 42 twenty times, alone and among noise; twenty unseeded requests differ."""
    model, draft = str(models / "llama-f32"), models / "llama-small"
    seeded = {"prompt": "In the morning", "temperature": 1, "seed": 42, "max_tokens": 24,
              "ignore_eos": True}
    options = {"speculative_model": draft, "num_speculative_tokens": 4}
    alone = generate(model, [seeded] * 20, max_num_seqs=1, **options)
    noise = {"prompt": "noise", "temperature": 1, "max_tokens": 40, "ignore_eos": True}
    mixed = generate(model, [noise] * 4 + [seeded] + [noise] * 4 + [seeded], max_num_seqs=9,
                     threads=2, **options)
    assert len({tuple(x["token_ids"]) for x in alone + [mixed[4], mixed[9]]}) == 1
    free = generate(model, [dict(noise, max_tokens=24)] * 20, **options)
    assert len({tuple(x["token_ids"]) for x in free}) >= 15
    assert len({x["seed"] for x in free}) == 20


def test_case_11_reported_seed_repeats_the_text(generate, models):
    """The seed that an unseeded answer reports gives the same text when it is sent."""
    model = str(models / "llama-f32")
    free = {"prompt": "In the morning", "temperature": 1, "max_tokens": 24, "ignore_eos": True}
    first = generate(model, free)[0]
    assert generate(model, dict(free, seed=first["seed"]))[0]["token_ids"] == first["token_ids"]


def test_case_11_seed_option(generate, models):
    """--seed: the whole run repeats; another value gives another run."""
    model = str(models / "llama-f32")
    lines = [{"prompt": p, "temperature": 1, "max_tokens": 24, "ignore_eos": True}
             for p in ("In the morning", "There is", "x")]
    runs = [[x["token_ids"] for x in generate(model, lines, seed=s, max_num_seqs=n)]
            for s, n in ((3, 1), (3, 8), (4, 8))]
    assert runs[0] == runs[1] != runs[2]


# --- cases 13, 14: the ends of contexts ----------------------------------------------------------

@pytest.mark.parametrize("seqs", [1, 8])
def test_case_13_end_of_context(generate, models, seqs):
    """Prompts of 58 to 63 tokens in a context of 64, K = 8, up to the last place."""
    model = str(models / "llama-f32")
    lines = [{"prompt_token_ids": list(range(40, 40 + n)), "max_tokens": 64 - n, "temperature": t,
              "seed": 1, "ignore_eos": True} for n in range(58, 64) for t in (0, 1)]
    for draft in (model, models / "llama-small"):
        out = both(generate, model, lines, draft, 8, max_model_len=64, max_num_seqs=seqs)
        for x, line in zip(out, lines):
            assert x["finish_reason"] == "length" and len(x["token_ids"]) == line["max_tokens"]


@pytest.mark.parametrize("k", [1, 3, 8])
def test_case_13_draft_with_a_shorter_context(generate, models, k):
    """A draft of 32 positions under a target of 128: the answer goes on without drafts."""
    model, draft = str(models / "llama-f32"), models / "llama-short"
    lines = [{"prompt_token_ids": list(range(40, 40 + n)), "max_tokens": 100, "temperature": t,
              "seed": 1, "ignore_eos": True} for n in (1, 20, 27, 28) for t in (0, 0.8)]
    both(generate, model, lines, draft, k, max_model_len=128)
    long = [dict(x, prompt_token_ids=list(range(40, 40 + n)), max_tokens=30)
            for x, n in zip(lines, (29, 30, 31, 32, 33, 34, 64, 90))]
    both(generate, model, long, draft, k, max_model_len=128)
    out = generate(model, lines[0], speculative_model=draft, num_speculative_tokens=k,
                   max_model_len=128)[0]
    assert 0 < out["speculation"]["drafted"] <= 32 * k
    itself = generate(model, lines[0], speculative_model=model, num_speculative_tokens=k,
                      max_model_len=128, speculative_max_model_len=32)[0]
    assert 0 < itself["speculation"]["drafted"] <= 32
    assert itself["token_ids"] == out["token_ids"]


def test_case_14_prompt_at_the_limit(attempt, models):
    """max_model_len 64: 63 tokens leave one; 64 and 65 are refused with both numbers."""
    model = str(models / "llama-f32")
    lines = [{"prompt_token_ids": list(range(40, 40 + n)), "max_tokens": 1, "temperature": 0}
             for n in (63, 64, 65, 10)]
    plain = attempt(model, lines, max_model_len=64)
    spec = attempt(model, lines, max_model_len=64, speculative_model=model)
    for status, out, _ in (plain, spec):
        assert status == 1 and len(out) == 4
        assert len(out[0]["token_ids"]) == 1 and out[0]["finish_reason"] == "length"
        for n, x in ((64, out[1]), (65, out[2])):
            assert "64" in x["error"]["message"] and str(n) in x["error"]["message"]
        assert len(out[3]["token_ids"]) == 1
    assert [x.get("token_ids") for x in plain[1]] == [x.get("token_ids") for x in spec[1]]


# --- cases 22, 23: sampling values ---------------------------------------------------------------

TINY = [0, 1e-12, 1e-6, 1e-5, 1e-4, 1e-3]


def test_case_22_tiny_temperatures(generate, models):
    lines = [{"prompt": "San Francisco is a", "max_tokens": 7, "temperature": t, "seed": 3}
             for t in TINY]
    lines += [dict(lines[0], temperature=1, top_p=1e-4), dict(lines[0], temperature=2, top_p=1e-12),
              dict(lines[0], temperature=1, top_k=1), dict(lines[0], temperature=1, min_p=1)]
    out = both(generate, str(models / "chain"), lines, models / "chain-draft")
    assert {x["text"] for x in out} == {"hello world foo"}


def test_case_22_logits_of_fp16_range(generate, chain):
    """Logits of +-60000: still argmax and finite, with every temperature."""
    pieces = ["t1", "t2", "t3"]

    def row(following):
        return {i: -60000.0 for i in range(10)} | {following: 60000.0}
    table = {None: row("t1"), "t1": row("t2"), "t2": row("t3"), "t3": row("<|endoftext|>")}
    model, _ = chain(table, pieces, dtype="F16")
    lines = [{"prompt": "p", "max_tokens": 7, "temperature": t, "seed": 3, "logprobs": 1}
             for t in TINY + [0.8, 2]]
    for x in both(generate, model, lines):
        assert x["text"] == "t1t2t3"
        assert all(abs(p["logprob"]) < 1e-3 for p in x["logprobs"])


@pytest.mark.parametrize("k", [0, 1, 5])
def test_a_row_that_overflows_ends_its_request_only(attempt, chain, k):
    """After "z" the logits are infinite: that request ends with an error, its neighbours do not."""
    pieces = ["t1", "t2", "t3", "z1"]
    table = {None: "t1", "t1": "t2", "t2": "t3", "t3": "t1", "q": "z1", "z1": {"t1": 1e39}}
    model, tok = chain(table, pieces)
    lines = [greedy("p", max_tokens=30), greedy("q", max_tokens=30), greedy("x", max_tokens=30)]
    status, out, _ = attempt(model, lines, speculative_model=model, num_speculative_tokens=k)
    assert status == 1
    assert out[0]["text"] == out[2]["text"] == "t1t2t3" * 10
    assert "not finite" in out[1]["error"]["message"]


def test_case_22_bad_temperatures(attempt, models):
    lines = [greedy(temperature=t) for t in (-1, -1e-9, 2.5, "1", [1])] + \
        ['{"prompt": "p", "temperature": NaN}\n', '{"prompt": "p", "temperature": 1e999}\n']
    status, out, _ = attempt(str(models / "chain"), lines)
    assert status == 1 and len(out) == len(lines) and all("error" in x for x in out)
    assert all(x["error"]["param"] == "temperature" for x in out[:5])


def test_case_23_top_k(attempt, models):
    """0, -1, V and V+5 are all `off`; -2, "5" and 1.5 are refused by name."""
    import tok_make
    V = tok_make.trained_byte_level().size
    good = [{"prompt": "There is", "temperature": 0.8, "seed": 1, "max_tokens": 20, "top_k": k}
            for k in (0, -1, V, V + 5, 2**31 - 1)]
    one = dict(good[0], top_k=1)
    bad = [dict(good[0], top_k=k) for k in (-2, "5", 1.5, 2**31)]
    bad += [dict(good[0], top_k=-1, top_p=p) for p in (0, 1.5, -0.1)]
    bad += [dict(good[0], top_k=-1, min_p=p) for p in (-0.1, 1.1)]
    status, out, _ = attempt(str(models / "llama-f32"), good + [one, dict(one, temperature=0)] + bad)
    assert status == 1 and len(out) == len(good) + 2 + len(bad)
    assert len({tuple(x["token_ids"]) for x in out[:5]}) == 1
    assert out[5]["token_ids"] == out[6]["token_ids"]
    for line, x in zip(bad, out[7:]):
        name = "top_p" if "top_p" in line else "min_p" if "min_p" in line else "top_k"
        assert x["error"]["param"] == name, x


@pytest.mark.parametrize("value,fails", [(0, False), (-1, False), (10**6, False), (-2, True)])
def test_case_23_top_k_of_generation_config(attempt, models, tmp_path, value, fails):
    folder = tmp_path / "model"
    shutil.copytree(models / "llama-f32", folder)
    path = folder / "generation_config.json"
    path.write_text(json.dumps(dict(json.loads(path.read_text()), top_k=value)))
    line = {"prompt": "There is", "temperature": 0.8, "seed": 1, "max_tokens": 20}
    status, out, err = attempt(str(folder), [line])
    if fails:
        assert status == 2 and "generation_config.json" in err and "top_k" in err
    else:
        want = attempt(str(models / "llama-f32"), [line])[1]
        assert status == 0 and out[0]["token_ids"] == want[0]["token_ids"]


# --- case 59: what ends an answer ----------------------------------------------------------------

def eos_model(chain, config=None, generation=None, tokenizer=None):
    """A model whose prompts "1", "5", "6" lead over "t" + digit to the special <e1>, <e5>, <e6>."""
    ends = ["<e1>", "<e5>", "<e6>", "<e9>"]
    table = {None: "<e9>"}
    for e in "156":
        table.update({e: "t" + e, "t" + e: "<e%s>" % e, "<e%s>" % e: "t" + e})
    path, tok = chain(table, ["t1", "t5", "t6"], eos="<e9>", specials=ends)
    for name, key, value in (("config.json", "eos_token_id", config),
                             ("generation_config.json", "eos_token_id", generation),
                             ("tokenizer_config.json", "eos_token", tokenizer)):
        file = path + "/" + name
        data = json.load(open(file))
        value = value(tok) if callable(value) else value
        data[key] = value
        if value == "absent":
            del data[key]
        json.dump(data, open(file, "w"))
    return path, tok


def test_case_59_union_of_end_tokens(generate, chain):
    model, tok = eos_model(chain, lambda t: t.id("<e1>"), lambda t: [t.id("<e1>"), t.id("<e5>")],
                           "<e6>")
    lines = [greedy(e, max_tokens=5) for e in "156"]
    for e, x in zip("156", both(generate, model, lines)):
        assert (x["text"], x["finish_reason"]) == ("t" + e, "stop"), e
        assert x["token_ids"] == [tok.id("t" + e), tok.id("<e%s>" % e)]
    for e, x in zip("156", both(generate, model, [dict(x, ignore_eos=True) for x in lines])):
        assert (x["text"], x["finish_reason"]) == (("t" + e) * 3, "length")
        assert len(x["token_ids"]) == 5
    for e, x in zip("156", both(generate, model, [dict(x, ignore_eos=True, stop_token_ids=[
            tok.id("<e%s>" % e)]) for e, x in zip("156", lines)])):
        assert (x["text"], x["finish_reason"]) == ("t" + e, "stop")


@pytest.mark.parametrize("value", [[], None, "absent"])
def test_case_59_no_end_token_in_a_file(generate, chain, value):
    model, _ = eos_model(chain, value, lambda t: t.id("<e5>"), "<e6>")
    out = generate(model, [greedy(e, max_tokens=4) for e in "156"])
    assert [x["finish_reason"] for x in out] == ["length", "stop", "stop"]


@pytest.mark.parametrize("where", ["config", "generation"])
@pytest.mark.parametrize("value", ["2", [999999], 999999, -1, [1, "2"], 1.5, {"a": 1}, [[1]], True])
def test_case_59_bad_end_tokens(attempt, chain, where, value):
    model, _ = eos_model(chain, **dict({"config": None, "generation": None, "tokenizer": "<e6>"},
                                       **{where: value}))
    status, out, err = attempt(model, [greedy()])
    assert status == 2 and out == [] and len(err.splitlines()) == 1
    assert "config.json" in err and "eos" in err.replace("end-of-sequence", "eos")


# --- one model, two formats ----------------------------------------------------------------------

def test_gguf_equals_safetensors(generate, models):
    """The same weights as GGUF F32 (its q and k rows turned for neighbouring pairs) and as
    safetensors F32: greedy and seeded tokens are the same."""
    lines = [greedy(p, max_tokens=40, ignore_eos=True) for p in ("The small river", "a", "1 2 3")]
    lines += [dict(lines[0], temperature=0.8, seed=4)]
    a = generate(str(models / "llama-f32"), lines)
    b = generate(str(models / "gguf-f32" / "model.gguf"), lines)
    assert [x["token_ids"] for x in a] == [x["token_ids"] for x in b]
