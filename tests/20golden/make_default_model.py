#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes default_model.json: greedy continuations of the default model by llama.cpp.

  pip install llama-cpp-python numpy
  python3 make_default_model.py PATH/SmolLM2-135M-Instruct.Q4_1.gguf > default_model.json

For each of 20 prompts: the ids of the prompt, 64 greedy ids, and at each of them the distance of the
best logit to the second. Made with llama-cpp-python 0.3.36 (its llama.cpp, native build, CPU)."""
import ctypes
import json
import sys

import numpy as np
from llama_cpp import Llama
import llama_cpp

PROMPTS = [
    "The quick brown fox", "In the beginning", "Once upon a time, there was a small village",
    "def fibonacci(n):", "The three states of matter are", "To bake bread you need",
    "The first president of the United States", "Dear Sir or Madam,", "import numpy as np\n",
    "Water boils at", "A haiku about autumn:\n", "The opposite of hot is", "1, 2, 3, 4,",
    "SELECT name FROM users WHERE", "The sun rises in the", "My favourite colour is",
    "Photosynthesis is the process by which", "Q: What is the tallest mountain?\nA:",
    "The museum was quiet that morning, and", "#include <stdio.h>\n",
]


def without_extra_buffers(defaults=llama_cpp.llama_cpp.llama_model_default_params):
    """Keeps llama.cpp away from AMX, which some virtual machines announce and then trap."""
    params = defaults()
    params.use_extra_bufts = False
    return params


def main():
    llama_cpp.llama_cpp.llama_model_default_params = without_extra_buffers
    llm = Llama(sys.argv[1], n_ctx=512, n_threads=1, n_threads_batch=1, verbose=False)
    n_vocab = llm.n_vocab()
    out = []
    for prompt in PROMPTS:
        ids = llm.tokenize(prompt.encode(), add_bos=False, special=False)
        llm.reset()
        llm.eval(ids)
        greedy, margin = [], []
        for _ in range(64):
            row = llama_cpp.llama_get_logits_ith(llm.ctx, -1)
            logits = np.ctypeslib.as_array(ctypes.cast(row, ctypes.POINTER(ctypes.c_float)),
                                           (n_vocab,))
            second, best = np.argsort(logits)[-2:]
            greedy.append(int(best))
            margin.append(round(float(logits[best] - logits[second]), 4))
            llm.eval([int(best)])
        out.append({"prompt": prompt, "ids": list(ids), "greedy": greedy, "margin": margin})
    json.dump(out, sys.stdout, indent=None, separators=(",", ":"))
    print()


main()
