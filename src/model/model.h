/* SPDX-License-Identifier: MIT
 *
 * model.h: a decoder on a device: weights, cache, work space, and its forward pass. It knows rows and
 * slots; sequences, plans and candidates are above it.
 *
 * Letters: T rows, R rows that want logits, D hidden size, H heads, G key/value heads, d head size, F
 * MLP size, V vocabulary rows, L layers. Owner: the engine thread. */
#ifndef BT_MODEL_MODEL_H
#define BT_MODEL_MODEL_H

#include "device/device.h"
#include "file/weightfile.h"
#include "model/batch.h"
#include "model/hparams.h"

typedef struct bt_layer {
    float *attn_norm, *mlp_norm;     /* [D] device */
    bt_weight *q, *k, *v, *o;        /* [H d, D] [G d, D] [G d, D] [D, H d] */
    bt_weight *gate, *up, *down;     /* [F, D] [F, D] [D, F] */
    float *q_bias, *k_bias, *v_bias; /* device, NULL: none */
    float *o_bias, *gate_bias, *up_bias, *down_bias;
    bt_kv_layer kv;
} bt_layer;

typedef struct bt_model {
    bt_hparams hp;
    bt_device *dev;      /* borrowed */
    bt_layer *layers;    /* [L] */
    bt_weight *embed;    /* [V, D] */
    bt_weight *head;     /* [V, D]; equal to embed when tied */
    float *final_norm;   /* [D] device */
    float *rope_factors; /* [d / 2] host, NULL unless BT_ROPE_FACTORS */
    size_t weight_bytes; /* packed */

    /* From bt_model_reserve. */
    int n_pos, rows_max, logits_max, n_blocks;
    float *rope_cos, *rope_sin;                     /* [n_pos, d / 2] device */
    float *x, *norm, *q, *k, *v, *attn, *gate, *up; /* [T, …] device */
    float *head_x;                                  /* [R, D] device */
    float *logits;                                  /* [R, V] device */
    float *logits_host; /* [R, V] host; the same memory where the device shares it */
} bt_model;

/* Binds, checks and packs all tensors. Every tensor of the file must be known and every tensor of
 * the architecture present, with the right shape; else the error names file and tensor. The device is
 * borrowed, the file is no longer needed afterwards. Returns owned. */
bt_status bt_model_open(const bt_weightfile *file, bt_device *dev, bt_model **out,
                        bt_err *err) BT_MUST_USE;
void bt_model_close(bt_model *model); /* NULL is allowed */

typedef struct bt_model_limits {
    int n_pos;      /* positions 0 … n_pos - 1 may occur */
    int rows_max;   /* T */
    int logits_max; /* R */
    int n_blocks;   /* of the cache */
    bt_dtype kv_dtype;
} bt_model_limits;

/* Bytes of cache that one block takes in this model. */
size_t bt_model_kv_block_bytes(const bt_hparams *hp, bt_dtype kv_dtype);
/* Bytes of work space (activations, logits, rotation tables). */
size_t bt_model_work_bytes(const bt_hparams *hp, const bt_model_limits *limits);
/* Claims cache and work space; once. The device must have been reserved for these limits. */
bt_status bt_model_reserve(bt_model *model, const bt_model_limits *limits, bt_err *err) BT_MUST_USE;

/* One pass over the rows of the batch: stores their keys and values, and gives the logits of the
 * rows that want them: *logits [R, V] on the host, in the order of batch->logits_row, valid until the
 * next pass. Allocates nothing. Tokens, positions and slots must be in range (asserted). */
void bt_model_forward(bt_model *model, const bt_batch *batch, const float **logits);

/* weights.c: fills model->layers, embed, head, norms from the file. */
bt_status bt_model_bind(bt_model *model, const bt_weightfile *file, bt_err *err) BT_MUST_USE;
void bt_model_unbind(bt_model *model);

#endif
