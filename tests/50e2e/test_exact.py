# SPDX-License-Identifier: MIT
"""Goal: speculation, batching, threads and chunks change no byte of an answer (cases 11 and 16).
Method: each variant of `betoken generate` against plain decoding (no draft, one thread, one request
at a time), on random checkpoints of three storage types with a good, a bad and a smaller draft."""
import pytest

STARTS = ["The small river", "In the morning", "Children come to the bridge", "There is a dog",
          "When it rains", "A b c 1 2 3", "  leading blanks", "x", "The sun returns,",
          "caf\u00e9 \u2014 \U0001f600"]
ENDS = ["", " and", " runs past the old mill and under the stone bridge. In", "\n\n", " 42:"]
PROMPTS = [a + b for b in ENDS for a in STARTS]  # 50
SAMPLING = [{"temperature": 0}, {"temperature": 0.8, "seed": 1},
            {"temperature": 0.8, "seed": 2, "top_p": 0.9},
            {"temperature": 0.8, "seed": 3, "top_k": 20},
            {"temperature": 0.8, "seed": 4, "min_p": 0.05},
            {"temperature": 1.5, "seed": 5, "top_p": 0.95, "top_k": 50}]
TARGETS = ["llama-f32", "llama-bf16", "gguf-q8_0"]
DRAFTS = ["itself", "llama-bad", "llama-small"]
COUNTS = [1, 3, 5, 8]


def path_of(models, name):
    folder = models / name
    return str(folder / "model.gguf" if name.startswith("gguf") else folder)


def requests(prompts, max_tokens=24):
    """Each prompt with one of the samplings, in turn; every sampling occurs."""
    return [dict({"prompt": p, "max_tokens": max_tokens}, **SAMPLING[i % len(SAMPLING)])
            for i, p in enumerate(prompts)]


def answers(lines):
    return [(x["text"], x["token_ids"], x["finish_reason"]) for x in lines]


def differences(got, want):
    """Where answers differ, with the first token that does: what a reader of a failure needs."""
    out = []
    for i, (g, w) in enumerate(zip(got, want)):
        if g != w:
            at = next((n for n, (a, b) in enumerate(zip(g[1], w[1])) if a != b),
                      min(len(g[1]), len(w[1])))
            out.append("request %d token %d: %r, want %r" % (i, at, g[1][at:at + 3], w[1][at:at + 3]))
    return out


def check_same(lines, want, what):
    assert answers(lines) == want, "%s: %s" % (what, "; ".join(differences(answers(lines), want)))


@pytest.fixture(scope="module")
def plain():
    """plain(generate, model, lines) -> answers without speculation, one at a time; remembered."""
    known = {}

    def call(generate, model, lines):
        key = (model, len(lines), lines[0]["max_tokens"])
        if key not in known:
            known[key] = answers(generate(model, lines, threads=1, max_num_seqs=1))
        return known[key]
    return call


def speculate(generate, model, draft, lines, want, k, threads, seqs, **more):
    out = generate(model, lines, speculative_model=draft, num_speculative_tokens=k,
                   threads=threads, max_num_seqs=seqs, **more)
    check_same(out, want, "k=%d threads=%d seqs=%d %s" % (k, threads, seqs, more))
    for x in out:
        s = x["speculation"]
        assert 0 <= s["accepted"] <= s["drafted"]
        assert len(x["token_ids"]) <= s["accepted"] + s["steps"]
        if k == 0:
            assert s["drafted"] == 0
        elif draft == model:
            assert s["accepted"] == s["drafted"], "the target as its own draft is accepted whole"
    return out


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("target", TARGETS)
def test_same_bytes_with_drafts(generate, models, plain, target, draft):
    """Case 16: twelve prompts, every k; threads and batch sizes take turns."""
    model = path_of(models, target)
    lines = requests(PROMPTS[::4][:12])
    want = plain(generate, model, lines)
    path = model if draft == "itself" else path_of(models, draft)
    for i, k in enumerate([0] + COUNTS):
        out = speculate(generate, model, path, lines, want, k, 1 + i % 2, (8, 1, 8, 3, 8)[i])
        if draft == "itself" and k > 0:
            assert sum(x["speculation"]["drafted"] for x in out) > 0


@pytest.mark.parametrize("target", ["qwen2", "mistral", "llama-bias-rope3", "llama-f16",
                                    "gguf-q4_0", "gguf-q5_1"])
def test_same_bytes_other_families(generate, models, plain, target):
    """The other families and storage types: their own draft, and a smaller one."""
    model = path_of(models, target)
    lines = requests(PROMPTS[1::8][:6], 40)
    want = plain(generate, model, lines)
    speculate(generate, model, model, lines, want, 5, 2, 8)
    speculate(generate, model, path_of(models, "llama-small"), lines, want, 3, 2, 4)


@pytest.mark.parametrize("target", TARGETS)
def test_same_bytes_in_chunks(generate, models, plain, target):
    """A prompt computed in chunks of any size, beside others, gives the same answer."""
    model = path_of(models, target)
    lines = requests([" ".join(PROMPTS[10:20]), "short", " ".join(PROMPTS[20:40]), "a",
                      PROMPTS[25], " ".join(PROMPTS[5:9])])
    want = plain(generate, model, lines)
    for rows, seqs in ((1, 1), (3, 3), (8, 8), (17, 4), (64, 8), (1024, 8)):
        check_same(generate(model, lines, max_num_batched_tokens=rows, max_num_seqs=seqs), want,
                   "chunks of %d" % rows)
        speculate(generate, model, path_of(models, "llama-small"), lines, want, 4, 2, seqs,
                  max_num_batched_tokens=rows)


@pytest.mark.parametrize("target", ["llama-bf16", "gguf-q8_0", "gguf-q4_1"])
@pytest.mark.parametrize("level", ["ref", "avx2", "avx512"])
def test_same_bytes_on_each_level(generate, models, level, target):
    """BT_CPU=level against itself: the equality does not hang on one kernel."""
    model, env = path_of(models, target), {"BT_CPU": level}
    lines = requests(PROMPTS[2::9][:6])
    want = answers(generate(model, lines, threads=1, max_num_seqs=1, env=env))
    for draft in (model, path_of(models, "llama-small")):
        speculate(generate, model, draft, lines, want, 4, 2, 8, env=env)


@pytest.mark.parametrize("cache", ["f32", "f16"])
def test_same_bytes_with_either_cache(generate, models, cache):
    model = path_of(models, "llama-f32")
    lines = requests(PROMPTS[3::9][:6])
    want = answers(generate(model, lines, threads=1, max_num_seqs=1, kv_cache_dtype=cache))
    speculate(generate, model, model, lines, want, 5, 2, 8, kv_cache_dtype=cache)


@pytest.mark.parametrize("options", [{"k": 64, "threads": 2, "seqs": 4},
                                     {"k": 64, "threads": 2, "seqs": 4, "max_num_batched_tokens": 10},
                                     {"k": 2, "threads": 16, "seqs": 8},
                                     {"k": 5, "threads": 1, "seqs": 8, "max_queued_requests": 0}])
def test_same_bytes_at_the_limits(generate, models, plain, options):
    """The most candidates, fewer rows than candidates, many threads, no queue."""
    model = path_of(models, "llama-f32")
    lines = requests(PROMPTS[::4][:12])
    want = plain(generate, model, lines)
    for draft in (model, path_of(models, "llama-small")):
        speculate(generate, model, draft, lines, want, **options)


def test_disable_by_batch_size(generate, models, plain):
    """No guesses while more sequences run than the option says; the answers stay."""
    model = path_of(models, "llama-f32")
    lines = requests(PROMPTS[::4][:12])
    want = plain(generate, model, lines)
    out = speculate(generate, model, model, lines, want, 5, 2, 8,
                    speculative_disable_by_batch_size=2)
    total = sum(x["speculation"]["drafted"] for x in out)
    free = speculate(generate, model, model, lines, want, 5, 2, 8)
    assert total < sum(x["speculation"]["drafted"] for x in free)


def test_rejection_sampler_repeats(generate, models, plain):
    """Rejection sampling: greedy equals plain decoding; a seed repeats, alone and among others."""
    model, draft = path_of(models, "llama-f32"), path_of(models, "llama-small")
    options = {"speculative_model": draft, "num_speculative_tokens": 4,
               "spec_decoding_acceptance_method": "rejection_sampler"}
    greedy = [{"prompt": p, "max_tokens": 24, "temperature": 0} for p in PROMPTS[:8]]
    check_same(generate(model, greedy, max_num_seqs=8, **options),
               plain(generate, model, greedy), "greedy")
    seeded = requests(PROMPTS[:12])
    first = answers(generate(model, seeded, max_num_seqs=1, threads=1, **options))
    check_same(generate(model, seeded, max_num_seqs=1, threads=1, **options), first, "repeated")
    check_same(generate(model, seeded, max_num_seqs=8, threads=2, **options), first, "batched")


def test_return_drafts(generate, models):
    """`drafts` holds one list a verification step, and what was accepted is their beginning."""
    model, draft = path_of(models, "llama-f32"), path_of(models, "llama-small")
    x = generate(model, {"prompt": "There is a dog", "max_tokens": 30, "temperature": 0,
                         "return_drafts": True, "ignore_eos": True},
                 speculative_model=draft, num_speculative_tokens=4)[0]
    assert sum(map(len, x["drafts"])) == x["speculation"]["drafted"]
    at, accepted = 1, 0  # the first token comes from the prompt's own pass
    for step in x["drafts"]:
        n = 0
        while n < len(step) and at + n < 30 and step[n] == x["token_ids"][at + n]:
            n += 1
        accepted, at = accepted + n, at + n + 1
    assert at >= 30 and accepted == x["speculation"]["accepted"]


@pytest.mark.slow
@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.parametrize("target", TARGETS)
def test_whole_matrix(generate, models, plain, target, draft):
    """Fifty prompts, every k, 1 and 2 threads, alone and 8 at a time."""
    model = path_of(models, target)
    lines = requests(PROMPTS, 32)
    want = plain(generate, model, lines)
    path = model if draft == "itself" else path_of(models, draft)
    for k in [0] + COUNTS:
        for threads in (1, 2):
            for seqs in (1, 8):
                speculate(generate, model, path, lines, want, k, threads, seqs)


@pytest.mark.slow
def test_batch_of_one_and_eight_random_prompts(generate, models, plain):
    """Case 16 as it stands: 200 random prompts of ids, K 1 … 8, batch 1 and 8."""
    import random
    rng = random.Random(16)
    model = path_of(models, "llama-bf16")
    lines = [{"prompt_token_ids": [rng.randrange(3, 400) for _ in range(rng.randrange(1, 60))],
              "max_tokens": 16, "temperature": 0} for _ in range(200)]
    want = plain(generate, model, lines)
    for k in range(1, 9):
        speculate(generate, model, path_of(models, "llama-small"), lines, want, k, 2,
                  8 if k % 2 else 1)


def with_its_tokenizer(path, out, layers, hidden, seed):
    """A random GGUF model with the tokenizer of the file at path, as its bad or smaller draft."""
    import checkpoints
    import gguf_file
    import gguf_peek
    meta = {k: v for k, v in gguf_peek.metadata(path).items() if k.startswith("tokenizer.")}
    tokens = meta["tokenizer.ggml.tokens"]
    cfg = checkpoints.config_of("llama", len(tokens), "F32", {
        "hidden_size": hidden, "intermediate_size": 2 * hidden, "num_hidden_layers": layers,
        "max_position_embeddings": 2048, "tie_word_embeddings": True})
    meta.update({"general.architecture": "llama", "general.name": "random",
                 "general.file_type": 0, "llama.block_count": layers, "llama.context_length": 2048,
                 "llama.embedding_length": hidden, "llama.feed_forward_length": 2 * hidden,
                 "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
                 "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 1e4,
                 "llama.rope.dimension_count": hidden // 4, "llama.vocab_size": len(tokens)})
    weights = checkpoints.random_weights(cfg, seed)
    gguf_file.write(out, meta, {checkpoints.gguf_name(n): (a, "F32") for n, a in weights.items()})
    return out


@pytest.mark.slow
@pytest.mark.parametrize("draft", ["itself", "bad", "other size"])
def test_default_model(generate, default_model, tmp_path, plain, draft):
    """The default model: 50 prompts, every k, 1 and 2 threads, alone and 8 at a time."""
    path = default_model
    if draft != "itself":
        layers, hidden = (2, 64) if draft == "bad" else (1, 32)
        path = with_its_tokenizer(default_model, str(tmp_path / "draft.gguf"), layers, hidden, 7)
    lines = requests(PROMPTS, 16)
    want = plain(generate, default_model, lines)
    for i, k in enumerate([0] + COUNTS):
        for threads, seqs in ((2, 8), (1, 1) if i % 2 else (2, 1)):
            speculate(generate, default_model, path, lines, want, k, threads, seqs, timeout=1800)


def test_long_prompt_is_drafted_for_in_chunks(generate, models):
    """A prompt longer than a batch is fed to the draft a chunk a step: it draws nothing meanwhile, a
    short neighbour does, and the text is that of plain decoding."""
    model = str(models / "llama-f32")
    lines = [{"prompt_token_ids": [(i * 37) % 200 + 40 for i in range(100)], "max_tokens": 24,
              "return_drafts": True},
             {"prompt_token_ids": [50, 60, 70], "max_tokens": 24, "return_drafts": True}]
    options = {"temperature": 0, "max_num_batched_tokens": 24, "max_num_seqs": 2}
    plain = generate(model, lines, **options)
    got = generate(model, lines, speculative_model=model, num_speculative_tokens=3, **options)
    assert [g["token_ids"] for g in got] == [p["token_ids"] for p in plain]
    assert [] in got[0]["drafts"][:-1]
    assert all(g["speculation"]["accepted"] == g["speculation"]["drafted"] > 0 for g in got)
