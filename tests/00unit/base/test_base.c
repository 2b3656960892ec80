/* SPDX-License-Identifier: MIT
 *
 * Goal: the small units that all others stand on. Method: known answers for the generator,
 * properties for the containers, real threads for ring and pool. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cpu.h"
#include "base/map.h"
#include "base/pool.h"
#include "base/ring.h"
#include "base/rng.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Known answers of the Random123 distribution (kat_vectors, philox4x32 10). */
static void philox_known_answers(void **state)
{
    (void)state;
    bt_philox a = bt_rng_philox(0, 0, 0, 0, 0);
    const uint32_t want_a[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    assert_memory_equal(a.v, want_a, sizeof want_a);
    bt_philox b =
        bt_rng_philox(0x299f31d0a4093822u, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344);
    const uint32_t want_b[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    assert_memory_equal(b.v, want_b, sizeof want_b);
}

/* Whatever a file or request holds, an error that quotes it is one line of UTF-8. */
static void error_messages_are_one_line(void **state)
{
    (void)state;
    bt_err err = {0};
    bt_fail(&err, BT_E_FORMAT, "a%sb", "\n\x01\x7F\t");
    assert_string_equal(err.message, "a????b");
    bt_fail(&err, BT_E_FORMAT, "%s", "\xC3\xA9 \xF0\x9F\x98\x80 \xE2\x82\xAC");
    assert_string_equal(err.message, "\xC3\xA9 \xF0\x9F\x98\x80 \xE2\x82\xAC");
    bt_fail(&err, BT_E_FORMAT, "%s", "\xC3 \x80 \xC0\xAF \xED\xA0\x80 \xF5 \xE2\x82");
    assert_string_equal(err.message, "? ? ?? ??? ? ??");
    bt_err_prefix(&err, "x\ny");
    assert_string_equal(err.message, "x?y: ? ? ?? ??? ? ??");
}

static void error_messages_are_cut_at_characters(void **state)
{
    (void)state;
    char longer[BT_ERR_MESSAGE_MAX + 10];
    memset(longer, 'a', sizeof longer);
    for (size_t i = 1; i + 3 < sizeof longer; i += 3) {
        memcpy(longer + i, "\xE4\xB8\xAD", 3);
    }
    longer[sizeof longer - 1] = '\0';
    bt_err err;
    assert_int_equal(bt_fail_at(&err, BT_E_FORMAT, 7, "%s", longer), BT_E_FORMAT);
    assert_int_equal(err.position, 7);
    size_t n = strlen(err.message);
    assert_true(n < BT_ERR_MESSAGE_MAX && n % 3 == 1);
    bt_fail(&err, BT_E_IO, "disk full");
    bt_err_prefix(&err, "file %d", 3);
    assert_string_equal(err.message, "file 3: disk full");
    assert_int_equal(bt_fail(NULL, BT_E_IO, "nobody listens"), BT_E_IO);
}

static void buffer_respects_its_maximum(void **state)
{
    (void)state;
    bt_buf buf;
    bt_buf_init(&buf, BT_MEM_BASE, 10);
    bt_buf_pushz(&buf, "12345");
    bt_buf_printf(&buf, "%d", 678);
    assert_int_equal(bt_buf_ok(&buf), BT_OK);
    bt_buf_pushz(&buf, "abc");
    assert_int_equal(bt_buf_ok(&buf), BT_E_LIMIT);
    bt_buf_pushz(&buf, "a");
    assert_true(bt_str_eqz(bt_buf_str(&buf), "12345678"));
    bt_buf_clear(&buf);
    assert_int_equal(bt_buf_ok(&buf), BT_OK);
    bt_buf_deinit(&buf);
}

static void arena_hands_out_and_forgets(void **state)
{
    (void)state;
    bt_arena arena;
    bt_arena_init(&arena, BT_MEM_BASE, 128, 1000);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 10; i++) {
            char *p = bt_arena_alloc(&arena, 100);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % 16, 0);
            memset(p, i, 100);
        }
        assert_null(bt_arena_alloc(&arena, 1));
        bt_arena_reset(&arena);
    }
    bt_arena_deinit(&arena);
    assert_int_equal(bt_mem_used(BT_MEM_BASE), 0);
}

static void map_finds_what_was_added(void **state)
{
    (void)state;
    enum { N = 3000 };
    static char keys[N][16];
    bt_map map;
    bt_map_init(&map, BT_MEM_BASE);
    bool added;
    for (int i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], "key%d", i * 7);
        assert_true(bt_map_add(&map, bt_str_of(keys[i]), i, &added));
        assert_true(added);
    }
    assert_true(bt_map_add(&map, BT_STR("key0"), 99, &added));
    assert_false(added);
    for (int i = 0; i < N; i++) {
        assert_int_equal(*bt_map_find(&map, bt_str_of(keys[i])), i);
    }
    assert_null(bt_map_find(&map, BT_STR("key1")));
    bt_map_deinit(&map);
}

enum { RING_ITEMS = 20000 };

static void *produce(void *arg)
{
    for (int i = 0; i < RING_ITEMS;) {
        if (bt_ring_push(arg, &i)) {
            i++;
        } else {
            sched_yield();
        }
    }
    return NULL;
}

static void ring_keeps_order_between_threads(void **state)
{
    (void)state;
    bt_ring ring;
    assert_true(bt_ring_init(&ring, BT_MEM_BASE, 5, sizeof(int)));
    assert_int_equal(bt_ring_space(&ring), 8);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, produce, &ring), 0);
    for (int want = 0, got; want < RING_ITEMS;) {
        if (bt_ring_pop(&ring, &got)) {
            assert_int_equal(got, want);
            want++;
        } else {
            sched_yield();
        }
    }
    pthread_join(thread, NULL);
    assert_true(bt_ring_is_empty(&ring));
    bt_ring_deinit(&ring);
}

static void count_chunk(void *ctx, int chunk_idx, int thread_idx)
{
    _Atomic int *counts = ctx;
    assert_in_range(thread_idx, 0, 3);
    atomic_fetch_add(&counts[chunk_idx], 1);
}

/* Every chunk runs exactly once, for many regions in a row and after the workers have slept. */
static void pool_runs_each_chunk_once(void **state)
{
    (void)state;
    bt_pool *pool;
    assert_int_equal(bt_pool_open(4, &pool, NULL), BT_OK);
    enum { N = 37 };
    static _Atomic int counts[N];
    int rounds = 2000;
    for (int r = 0; r < rounds; r++) {
        bt_pool_run(pool, r % 2 == 0 ? N : 3, count_chunk, counts);
        if (r == rounds / 2) {
            struct timespec t = {.tv_nsec = 2000000};
            nanosleep(&t, NULL);
        }
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(counts[i], i < 3 ? rounds : rounds / 2);
    }
    bt_pool_close(pool);
    bt_err err;
    assert_int_equal(bt_pool_open(0, &pool, &err), BT_E_INVALID);
}

static void cpu_names_round_trip(void **state)
{
    (void)state;
    assert_true(bt_cpu_init(NULL));
    for (int i = 0; i < BT_ISA_COUNT; i++) {
        bt_isa isa;
        assert_true(bt_cpu_parse_isa(bt_cpu_isa_name((bt_isa)i), &isa));
        assert_int_equal(isa, i);
    }
    assert_true(bt_cpu_has(bt_cpu_isa()));
    assert_true(bt_cpu_threads() >= 1);
    assert_true(bt_cpu_memory_limit() >= bt_cpu_memory_available());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(error_messages_are_one_line),
        cmocka_unit_test(error_messages_are_cut_at_characters),
        cmocka_unit_test(buffer_respects_its_maximum),
        cmocka_unit_test(arena_hands_out_and_forgets),
        cmocka_unit_test(map_finds_what_was_added),
        cmocka_unit_test(ring_keeps_order_between_threads),
        cmocka_unit_test(pool_runs_each_chunk_once),
        cmocka_unit_test(cpu_names_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
