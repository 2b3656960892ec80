#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes golden.json: small tokenizers and what the tokenizers package (PyPI, 0.22 or later) makes
of texts and ids with them. Run by hand: make_golden.py > golden.json"""
import json
import random

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

CORPUS = ["the quick brown fox jumps over the lazy dog", "they're there, isn't it? we'll see",
          "if (x == 10) { return y[3]; }\n\treturn 0;\n", "Grüße aus Köln, naïve café",
          "1234567890 3.14 2026", "日本語の文 中文", "  spaces   and\n\nnewlines  \n"] * 4
TEXTS = ["", " ", "the quick brown fox", "  two", " x", "\n", "a\n\n  b \t", "they're I'M we'll 'S",
         "3333+777? 12345", "->", "(x):\n", "  \n\n  a", "\u0661\u0662\u0663", "a\u00a0b\u180ec\u3000d",
         "cr\r\nlf", "Grüße", "e\u0301 \u00e9 \uac00\u11a7", "日本語 中", "😀 ok",
         "\u0000nul\u0001", "<sp>", "a<sp>b", "<sp><sp>", " <sp> ", "word words aword word",
         "x  [L]  y", "x  [R]  y", "[L][R] [L]", "Norm norm", "  tok  ", "ſ's 'ſ",
         "<sp", "sp>", "a" * 50, "ab" * 40, " " * 70, "the" * 30, "<0x41>", "\u2581x \u2581 y"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


def train(tok, alphabet, n):
    tok.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=n, initial_alphabet=alphabet, special_tokens=["<unk>", "<s>"], show_progress=False))
    tok.add_special_tokens(["<sp>", AddedToken("[R]", rstrip=True)])
    tok.add_tokens([AddedToken("word", single_word=True), AddedToken("[L]", lstrip=True),
                    AddedToken("Norm", normalized=True), AddedToken("  tok", normalized=False)])



def byte_level(pre, normalizer=None, prefix=False):
    tok = Tokenizer(models.BPE())
    if normalizer is not None:
        tok.normalizer = normalizer
    tail = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=not pre or pre[0] in ("each", "runs"))
    head = [pre_tokenizers.Split(Regex(p), "isolated") if p in (LLAMA3, QWEN2)
            else pre_tokenizers.Digits(individual_digits=p == "each") for p in pre]
    tok.pre_tokenizer = pre_tokenizers.Sequence(head + [tail]) if head else tail
    tok.decoder = decoders.ByteLevel()
    train(tok, sorted(pre_tokenizers.ByteLevel.alphabet()), 400)
    return tok


def sentencepiece(byte_fallback):
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=byte_fallback))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
             decoders.Strip(" ", 1, 0)]
    tok.decoder = decoders.Sequence(steps)
    tok.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    train(tok, [], 400)
    text = json.loads(tok.to_str())
    text["pre_tokenizer"] = None
    model = text["model"]
    if byte_fallback:
        for b in range(256):
            model["vocab"]["<0x%02X>" % b] = 1000 + b
    return Tokenizer.from_str(json.dumps(text))


def tweak(tok, **model):
    text = json.loads(tok.to_str())
    text["model"].update(model)
    return Tokenizer.from_str(json.dumps(text))


def cases(tok, seed):
    rng = random.Random(seed)
    ids = sorted(tok.get_vocab().values())
    words = [i for i in ids if i < 1000]
    lists = [[rng.choice(words if k % 2 else ids) for _ in range(rng.randrange(1, 9))]
             for k in range(60)]
    lists += [tok.encode(t).ids for t in ("\u0416 \U0001f600x \u0905", "\u00b5", "")]
    return {
        "texts": [{"text": t, "plain": tok.encode(t, add_special_tokens=False).ids,
                   "special": tok.encode(t).ids} for t in TEXTS],
        "ids": [{"ids": i, "text": tok.decode(i, skip_special_tokens=False),
                 "skipped": tok.decode(i, skip_special_tokens=True)} for i in lists]}


def main():
    made = {"gpt2": byte_level([]), "prefix": byte_level([], prefix=True),
            "digits": byte_level(["each"]), "digit_runs": byte_level(["runs"]),
            "nfc": byte_level([QWEN2], normalizers.NFC()),
            "llama3": tweak(byte_level([LLAMA3]), ignore_merges=True),
            "fallback": sentencepiece(True), "unknown": sentencepiece(False)}
    for name in ("llama3", "fallback"):
        sp = made[name].token_to_id("<sp>")
        made[name].post_processor = processors.TemplateProcessing(
            single="<s> $A <sp>", special_tokens=[("<s>", 1), ("<sp>", sp)])
    out = {name: {"tokenizer": json.loads(tok.to_str()), **cases(tok, i)}
           for i, (name, tok) in enumerate(made.items())}
    print(json.dumps(out, ensure_ascii=True, separators=(",", ":")))


main()
