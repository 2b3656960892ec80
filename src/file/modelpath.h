/* SPDX-License-Identifier: MIT
 *
 * modelpath.h: from what a user writes after --model to a path on disk. */
#ifndef BT_FILE_MODELPATH_H
#define BT_FILE_MODELPATH_H

#include "base/buf.h"
#include "base/status.h"

/* name: a directory with config.json, a .gguf file, or ORG/NAME as the Hugging Face hub's cache
 * stores it: <cache_dir>/models--ORG--NAME/snapshots/<revision>, the revision being the one that
 * refs/main names (or the only snapshot). cache_dir: HF_HUB_CACHE, or $HF_HOME/hub, or
 * ~/.cache/huggingface/hub; the caller (cmd) reads the environment. A directory that holds one
 * .gguf file and no config.json means that file. *path: free with bt_mem_free.
 * Errors: BT_E_NOT_FOUND; for ORG/NAME the message ends with a line that downloads it
 * ("huggingface-cli download ORG/NAME"). */
bt_status bt_modelpath_resolve(const char *name, const char *cache_dir, char **path,
                               bt_err *err) BT_MUST_USE;

#endif
