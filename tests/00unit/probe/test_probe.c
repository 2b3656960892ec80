/* SPDX-License-Identifier: MIT
 *
 * Goal: the statistics are right, cases alternate, and ceilings are sane. Method: known samples, a
 * recorded order of calls, a small measurement. Speeds themselves are not asserted: the machine is
 * shared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "probe/ceilings.h"
#include "probe/timing.h"

#include <string.h>

static void statistics(void **state)
{
    (void)state;
    double samples[] = {50, 10, 40, 20, 30};
    bt_timing t = bt_timing_of(samples, 5);
    assert_true(t.median_ns == 30 && t.best_ns == 10 && t.worst_ns == 50);
    assert_true(t.low_ns == 20 && t.high_ns == 40 && t.n_rounds == 5);
    double two[] = {4, 2};
    assert_true(bt_timing_of(two, 2).median_ns == 3);
    double one[] = {7};
    assert_true(bt_timing_of(one, 1).high_ns == 7);
}

typedef struct record {
    char **end; /* of the string of calls */
    char name;
} record;

static void note(void *ctx)
{
    record *r = ctx;
    *(*r->end)++ = r->name;
}

/* Two warm-up rounds and three timed ones, A before B in each. */
static void cases_alternate(void **state)
{
    (void)state;
    char order[32] = {0}, *end = order;
    record a = {&end, 'A'}, b = {&end, 'B'};
    const bt_timing_case cases[] = {{"a", note, &a}, {"b", note, &b}};
    bt_timing t[2];
    assert_int_equal(bt_timing_run(cases, 2, 2, 3, t), BT_OK);
    assert_string_equal(order, "ABABABABAB");
    assert_int_equal(t[1].n_rounds, 3);
    assert_true(t[0].best_ns >= 0 && t[0].best_ns <= t[0].median_ns);
    bt_mem_fail_after(1);
    bt_status status = bt_timing_run(cases, 2, 0, 1, t);
    bt_mem_fail_after(0);
    assert_int_equal(status, BT_E_NO_MEMORY);
}

static void json_is_escaped(void **state)
{
    (void)state;
    bt_buf buf;
    bt_buf_init(&buf, BT_MEM_BASE, 1000);
    double one[] = {7};
    bt_timing t = bt_timing_of(one, 1);
    bt_timing_json(&buf, "a\"\\\n", &t);
    assert_string_equal(buf.p, "{\"name\":\"a\\\"\\\\\\u000a\",\"median_ns\":7,\"low_ns\":7,"
                               "\"high_ns\":7,\"best_ns\":7,\"worst_ns\":7,\"rounds\":1}");
    bt_buf_deinit(&buf);
}

static void ceilings_are_sane(void **state)
{
    (void)state;
    bt_pool *pool = NULL;
    bt_err err;
    bt_ceilings c;
    assert_int_equal(bt_pool_open(2, &pool, &err), BT_OK);
    size_t before = bt_mem_used(BT_MEM_WORK);
    assert_int_equal(bt_ceilings_measure(pool, 100, 3, &c, &err), BT_E_INVALID);
    assert_int_equal(bt_ceilings_measure(pool, (size_t)3 << 20, 3, &c, &err), BT_OK);
    assert_int_equal(c.n_threads, 2);
    assert_int_equal(c.bytes, 3 << 20);
    assert_true(c.read_one_gbs > 0.01 && c.read_one_gbs < 10000);
    assert_true(c.read_all_gbs >= c.median_all_gbs && c.median_all_gbs > 0);
    for (uint64_t nth = 1; nth <= 3; nth++) {
        bt_mem_fail_after(nth);
        bt_status status = bt_ceilings_measure(pool, (size_t)1 << 20, 1, &c, &err);
        bt_mem_fail_after(0);
        assert_int_equal(status, BT_E_NO_MEMORY);
    }
    assert_int_equal(bt_mem_used(BT_MEM_WORK), before);
    bt_buf buf;
    bt_buf_init(&buf, BT_MEM_BASE, 1000);
    bt_ceilings_json(&buf, &c);
    assert_non_null(strstr(buf.p, "\"threads\":2,\"bytes\":3145728,\"read_one_gbs\":"));
    bt_buf_deinit(&buf);
    bt_pool_close(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics),
        cmocka_unit_test(cases_alternate),
        cmocka_unit_test(json_is_escaped),
        cmocka_unit_test(ceilings_are_sane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
