# SPDX-License-Identifier: MIT
"""Goal: a checkpoint is loaded whole or refused with one line that names what is wrong (cases 52,
53, 56 at the level of the command). Method: checkpoints damaged in one place; the command must end
with status 2 and one line on stderr, never by a signal, whatever the damage."""
import json
import os
import random
import shutil
import struct
import subprocess

import numpy as np
import pytest

import st_file

PROMPT = "The small river"


@pytest.fixture
def load(run):
    """load(model) -> (status, stdout, stderr) of one short answer; a signal or a hang fails."""
    def call(model, *more):
        r = run("generate", "--model", model, "--prompt", PROMPT, "--max-tokens", 4, "--json",
                "--temperature", 0, "--log-level", "error", "--max-num-seqs", 2, *more, timeout=60)
        assert r.returncode in (0, 1, 2), "status %d\n%s" % (r.returncode, r.stderr)
        return r.returncode, r.stdout, r.stderr
    return call


def refused(result, *words):
    """One line, status 2, and every word in it."""
    status, out, err = result
    assert status == 2 and out == "", (status, out, err)
    assert len(err.splitlines()) == 1 and err.startswith("betoken: "), err
    for word in words:
        assert word in err, "%r is not named in: %s" % (word, err)


@pytest.fixture
def copy(models, tmp_path):
    """copy(name) -> path of a fresh copy of a standard checkpoint."""
    def call(name):
        folder = tmp_path / name
        shutil.copytree(models / name, folder)
        return folder
    return call


def edit(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def rewrite(folder, change, dtype="F32"):
    """The safetensors file again after change(tensors)."""
    path = folder / "model.safetensors"
    tensors = st_file.read(str(path))
    change(tensors)
    st_file.write(str(path), tensors, dtype, {"format": "pt"})


# --- case 52: shards ----------------------------------------------------------------------------

def shards(folder):
    return sorted(p for p in folder.iterdir() if p.suffix == ".safetensors")


@pytest.mark.parametrize("damage", ["delete", "rename"])
def test_case_52_missing_shard(load, copy, damage):
    folder = copy("llama-sharded")
    second = shards(folder)[1]
    if damage == "delete":
        second.unlink()
    else:
        second.rename(folder / "renamed.safetensors")
    refused(load(folder), second.name, "incomplete download?")


def test_case_52_tensor_in_the_wrong_shard(load, copy):
    folder = copy("llama-sharded")
    names = [p.name for p in shards(folder)]

    def move(index):
        name = next(n for n, f in index["weight_map"].items() if f == names[0])
        index["weight_map"][name] = names[1]
        move.name = name
    edit(folder / "model.safetensors.index.json", move)
    refused(load(folder), move.name, names[1])


def test_case_52_tensor_in_no_file(load, copy):
    folder = copy("llama-sharded")
    name = shards(folder)[0].name
    edit(folder / "model.safetensors.index.json",
         lambda i: i["weight_map"].update({"model.layers.0.ghost.weight": name}))
    refused(load(folder), "ghost", name)


def test_case_52_stray_shard_is_left_alone(load, copy, run):
    folder = copy("llama-sharded")
    want = load(folder)[1]
    shutil.copy(shards(folder)[0], folder / "model-00009-of-00009.safetensors")
    status, out, _ = load(folder)
    assert status == 0 and json.loads(out)["token_ids"] == json.loads(want)["token_ids"]


@pytest.mark.parametrize("path", ["../x.safetensors", "/etc/passwd", "a/../../x.safetensors", ""])
def test_case_52_path_out_of_the_folder(load, copy, path):
    folder = copy("llama-sharded")

    def escape(index):
        index["weight_map"][next(iter(index["weight_map"]))] = path
    edit(folder / "model.safetensors.index.json", escape)
    refused(load(folder), "index")


# --- missing tensors, wrong shapes, wrong sizes ---------------------------------------------------

@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "model.norm.weight",
                                  "model.layers.1.self_attn.k_proj.weight",
                                  "model.layers.2.mlp.down_proj.weight",
                                  "model.layers.0.input_layernorm.weight"])
def test_missing_tensor(load, copy, name):
    folder = copy("llama-f32")
    rewrite(folder, lambda t: t.pop(name))
    refused(load(folder), name, "missing")


@pytest.mark.parametrize("name,shape", [("model.embed_tokens.weight", (100, 32)),
                                        ("model.layers.1.self_attn.k_proj.weight", (64, 64)),
                                        ("model.layers.1.self_attn.q_proj.weight", (64,)),
                                        ("model.norm.weight", (63,)),
                                        ("model.norm.weight", (64, 1)),
                                        ("lm_head.weight", (64, 411))])
def test_wrong_shape(load, copy, name, shape):
    folder = copy("llama-f32")
    rewrite(folder, lambda t: t.update({name: np.zeros(shape)}))
    refused(load(folder), name)


def test_unknown_tensor(load, copy):
    folder = copy("llama-f32")
    rewrite(folder, lambda t: t.update({"model.layers.0.self_attn.odd.weight": np.zeros((4, 4))}))
    refused(load(folder), "model.layers.0.self_attn.odd.weight")


@pytest.mark.parametrize("key,value", [
    ("hidden_size", 0), ("hidden_size", -64), ("hidden_size", 2**40), ("hidden_size", "64"),
    ("hidden_size", 60), ("num_hidden_layers", 4), ("num_hidden_layers", 10**9),
    ("num_attention_heads", 3), ("num_key_value_heads", 3), ("num_attention_heads", 0),
    ("num_key_value_heads", -1), ("vocab_size", 10), ("vocab_size", 10**12),
    ("max_position_embeddings", 0), ("max_position_embeddings", "many"),
    ("intermediate_size", 127), ("rms_norm_eps", "x"), ("rope_theta", "x"),
    ("rope_scaling", {"rope_type": "yarn", "factor": 2.0}), ("rope_scaling", [1]),
    ("hidden_act", "gelu"), ("head_dim", 15), ("model_type", "mamba"),
    ("architectures", ["MambaForCausalLM"])])
def test_wrong_configuration(load, copy, key, value):
    folder = copy("llama-f32")
    edit(folder / "config.json", lambda c: c.update({key: value}))
    if key == "model_type":
        edit(folder / "config.json", lambda c: c.pop("architectures"))
    refused(load(folder))


@pytest.mark.parametrize("key,value", [("rope_theta", 0), ("rope_theta", -1.0),
                                       ("rms_norm_eps", -1.0), ("rms_norm_eps", 1e400),
                                       ("rope_scaling", {"type": "linear", "factor": 0}),
                                       ("rope_scaling", {"type": "linear", "factor": -2.0})])
def test_configuration_without_meaning(load, copy, key, value):
    """Numbers that would give NaN or infinite rotations are refused at load, not at the answer."""
    folder = copy("llama-f32")
    edit(folder / "config.json", lambda c: c.update({key: value}))
    refused(load(folder))


def test_token_without_a_row(copy, run):
    """A token added to the tokenizer alone: prompts that hold it are refused, others answered."""
    folder = copy("llama-f32")
    n_rows = json.loads((folder / "config.json").read_text())["vocab_size"]
    edit(folder / "tokenizer.json", lambda t: t["added_tokens"].append(
        {"id": n_rows, "content": "<|new|>", "special": True, "normalized": False,
         "single_word": False, "lstrip": False, "rstrip": False}))
    prompts = json.dumps({"prompt": "a <|new|> b"}) + "\n" + json.dumps({"prompt": "a b"}) + "\n"
    (folder / "prompts.jsonl").write_text(prompts)
    r = run("generate", "--model", folder, "--prompts", folder / "prompts.jsonl", "--max-tokens", 2,
            "--json", timeout=60)
    first, second = (json.loads(line) for line in r.stdout.splitlines())
    assert r.returncode == 1 and first["error"]["param"] == "prompt", r.stderr
    assert str(n_rows) in first["error"]["message"] and len(second["token_ids"]) == 2


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("damage", ["missing", "empty", "directory", "half"])
def test_damaged_file(load, copy, name, damage):
    folder = copy("llama-f32")
    path = folder / name
    data = path.read_bytes()
    path.unlink()
    if damage == "directory":
        path.mkdir()
    elif damage != "missing":
        path.write_bytes(b"" if damage == "empty" else data[:len(data) // 2])
    refused(load(folder), *([] if damage == "missing" else [name]))


def test_no_such_model(load, tmp_path):
    refused(load(tmp_path / "nothing"), "nothing")
    (tmp_path / "empty").mkdir()
    refused(load(tmp_path / "empty"), "empty")
    text = tmp_path / "model.gguf"
    text.write_text("no model")
    refused(load(text), "model.gguf")


def test_damaged_draft_is_refused_too(load, copy, models):
    folder = copy("llama-small")
    rewrite(folder, lambda t: t.pop("model.norm.weight"))
    refused(load(models / "llama-f32", "--speculative-model", folder), "model.norm.weight")


def test_weights_that_are_not_numbers(load, copy):
    """NaN weights load (a checkpoint may hold what it likes); the request ends with an error."""
    folder = copy("llama-f32")
    rewrite(folder, lambda t: t["model.norm.weight"].__setitem__(0, np.nan))
    status, out, err = load(folder)
    assert status == 1 and "not finite" in json.loads(out)["error"]["message"]


# --- case 53: headers ---------------------------------------------------------------------------

def header_of(path):
    data = path.read_bytes()
    n = struct.unpack_from("<Q", data)[0]
    return json.loads(data[8:8 + n]), data[8 + n:]


def write_header(path, header, body):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


NAME = "model.layers.0.mlp.up_proj.weight"


@pytest.mark.parametrize("field,value", [
    ("data_offsets", [100, 50]), ("data_offsets", [0, 32768]), ("data_offsets", [-1, 5]),
    ("data_offsets", [1.5, 5]), ("data_offsets", [0, 2**64]), ("data_offsets", [1, 2, 3]),
    ("data_offsets", "0:1"), ("shape", [2**33, 2**33]), ("shape", [1000, 1000]), ("shape", [-1]),
    ("shape", [1] * 100), ("shape", "64"), ("dtype", "F13"), ("dtype", 3), ("dtype", "I64")])
def test_case_53_bad_header(load, copy, field, value):
    path = copy("llama-f32") / "model.safetensors"
    header, body = header_of(path)
    header[NAME][field] = value
    write_header(path, header, body)
    refused(load(path.parent), "model.safetensors")


@pytest.mark.parametrize("length", [0, 1, 2**31, 2**63, 2**64 - 1, 10**9])
def test_case_53_bad_header_length(load, copy, length):
    path = copy("llama-f32") / "model.safetensors"
    path.write_bytes(struct.pack("<Q", length) + path.read_bytes()[8:])
    refused(load(path.parent), "model.safetensors")


def test_case_53_duplicate_name(load, copy):
    path = copy("llama-f32") / "model.safetensors"
    header, body = header_of(path)
    text = json.dumps(header).encode()
    again = json.dumps({NAME: header[NAME]}).encode()
    write_header(path, text[:-1] + b", " + again[1:], body)
    refused(load(path.parent), "model.safetensors", "duplicate")


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("name", ["llama-f32/model.safetensors", "gguf-q8_0/model.gguf",
                                  "gguf-f32/model.gguf"])
def test_truncated(load, models, tmp_path, name, at):
    source = models / name
    folder = tmp_path / "model"
    shutil.copytree(source.parent, folder)
    path = folder / source.name
    os.truncate(path, int(source.stat().st_size * at))
    refused(load(path if source.suffix == ".gguf" else folder), source.name)


# --- case 56: tied embeddings ---------------------------------------------------------------------

def tied_variant(folder, tie, head):
    """Config flag tie (None: absent) and lm_head: None, "same" as the embedding, or "other"."""
    def change(t):
        t.pop("lm_head.weight")
        e = t["model.embed_tokens.weight"]
        if head:
            t["lm_head.weight"] = e.copy() if head == "same" else e[::-1].copy()
    rewrite(folder, change)

    def flag(c):
        c.pop("tie_word_embeddings")
        if tie is not None:
            c["tie_word_embeddings"] = tie
    edit(folder / "config.json", flag)


@pytest.mark.parametrize("tie,head", [(True, None), (True, "same"), (True, "other"),
                                      (False, "same"), (None, "same"), (False, "other"),
                                      (None, "other")])
def test_case_56_tied_embeddings(generate, copy, tie, head):
    """tie true: the embedding is the head, whatever lies beside it; false or absent (the documented
    default of these families): lm_head. Log-probabilities are equal to the last bit."""
    line = {"prompt": PROMPT, "max_tokens": 8, "temperature": 0, "logprobs": 3, "seed": 1}
    folder = copy("llama-f32")
    tied_variant(folder, tie, head)
    got = generate(str(folder), line)[0]
    tied_variant_again = copy("llama-bf16").parent / "reference"
    shutil.copytree(folder, tied_variant_again)
    rewrite(tied_variant_again, lambda t: t.update({"lm_head.weight": t.get(
        "lm_head.weight", np.zeros(1))}))
    rewrite(tied_variant_again, lambda t: t.update({
        "lm_head.weight": t["model.embed_tokens.weight"] if tie or head == "same"
        else t["model.embed_tokens.weight"][::-1].copy()}))
    edit(tied_variant_again / "config.json", lambda c: c.update(tie_word_embeddings=False))
    assert got == generate(str(tied_variant_again), line)[0]


@pytest.mark.parametrize("tie", [False, None])
def test_case_56_missing_head(load, copy, tie):
    folder = copy("llama-f32")
    tied_variant(folder, tie, None)
    refused(load(folder), "lm_head.weight", "tie_word_embeddings")


# --- random damage ---------------------------------------------------------------------------------

FLIPS = int(os.environ.get("BT_FLIPS", "25"))


def header_bytes(path):
    """How many bytes of a file describe the rest."""
    data = path.read_bytes()
    if path.suffix == ".safetensors":
        return 8 + struct.unpack_from("<Q", data)[0]
    if path.suffix == ".gguf":
        return min(len(data), 24000)
    return len(data)


def flip_bits(load, folder, model, name, n, seed):
    """n times: one to three bits of the describing bytes flipped; load; restore."""
    path, rng = folder / name, random.Random(seed)
    data, most = path.read_bytes(), header_bytes(path)
    outcomes = {0: 0, 1: 0, 2: 0}
    for _ in range(n):
        damaged = bytearray(data)
        places = [(rng.randrange(most), rng.randrange(8)) for _ in range(rng.randrange(1, 4))]
        for at, bit in places:
            damaged[at] ^= 1 << bit
        path.write_bytes(damaged)
        try:
            status, _, err = load(model)
        except (AssertionError, subprocess.TimeoutExpired) as e:
            pytest.fail("bits %s of %s: %s" % (places, name, e))
        lines = [x for x in err.splitlines() if x]
        assert status != 2 or (len(lines) == 1 and lines[0].startswith("betoken: ")), \
            "bits %s of %s: %s" % (places, name, err)
        outcomes[status] += 1
    return outcomes


DAMAGED = [("llama-f32", "config.json"), ("llama-f32", "tokenizer.json"),
           ("llama-f32", "tokenizer_config.json"), ("llama-f32", "generation_config.json"),
           ("llama-f32", "model.safetensors"), ("llama-sharded", "model.safetensors.index.json"),
           ("llama-spm", "tokenizer.json"), ("gguf-q8_0", "model.gguf")]


def flip_case(load, copy, name, file, n, seed):
    folder = copy(name)
    return flip_bits(load, folder, folder / file if file.endswith("gguf") else folder, file, n, seed)


@pytest.mark.parametrize("name,file", DAMAGED)
def test_flipped_bits(load, copy, name, file):
    """Any damage ends in an answer or in one line, never in a signal."""
    outcomes = flip_case(load, copy, name, file, FLIPS, 1)
    assert sum(outcomes.values()) == FLIPS


@pytest.mark.slow
@pytest.mark.parametrize("name,file", DAMAGED)
def test_many_flipped_bits(load, copy, name, file):
    outcomes = flip_case(load, copy, name, file, 400, 2)
    assert outcomes[2] > 0
