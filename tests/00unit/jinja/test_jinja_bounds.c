/* SPDX-License-Identifier: MIT
 *
 * Goal: what a template or a chat is allowed to do. Marks: text of clients is never trusted, whatever
 * the template does with it. Bounds: a hostile template ends with an error, soon, on a small stack.
 * Errors name the line, and the unknown names are found when compiling. Method: small templates,
 * threads with 512 KiB of stack, each allocation made to fail in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "jinja/jinja.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct result {
    bt_status status;
    bt_jinja_output out;
    bt_err err;
} result;

/* Compiles and renders with x = "<D>" (data), bos = "<B>" (trusted), l = ["<1>", "<2>"] (data). */
static result render(bt_str source, size_t output_max)
{
    result r = {0};
    bt_jinja *tmpl = NULL;
    bt_json *list;
    if (bt_json_parse(BT_STR("[\"<1>\",\"<2>\"]"), &list, NULL) != BT_OK) {
        abort();
    }
    const bt_jinja_var vars[] = {
        {.name = "x", .text = BT_STR("<D>")},
        {.name = "bos", .text = BT_STR("<B>"), .trusted = true},
        {.name = "l", .json = list},
    };
    const bt_jinja_args args = {.vars = vars, .n_vars = BT_COUNT(vars), .output_max = output_max};
    r.status = bt_jinja_open(source, &tmpl, &r.err);
    if (r.status == BT_OK) {
        r.status = bt_jinja_render(tmpl, &args, &r.out, &r.err);
    }
    bt_jinja_close(tmpl);
    bt_json_close(list);
    return r;
}

/* The output with every trusted run as "[…]". */
static void marked(const char *source, const char *want)
{
    result r = render(bt_str_of(source), 10000);
    bt_buf buf;
    bt_buf_init(&buf, BT_MEM_TEXT, 100000);
    if (r.status != BT_OK) {
        fail_msg("%s: %s", source, r.err.message);
    }
    size_t start = 0;
    for (size_t i = 0; i < r.out.n_runs; i++) {
        const bt_run *run = &r.out.runs[i];
        assert_true(run->end > start);
        assert_true(i == 0 || run->trusted != run[-1].trusted);
        bt_buf_pushz(&buf, run->trusted ? "[" : "");
        bt_buf_push(&buf, r.out.text + start, run->end - start);
        bt_buf_pushz(&buf, run->trusted ? "]" : "");
        start = run->end;
    }
    assert_int_equal(start, r.out.n);
    assert_string_equal(bt_buf_str(&buf).p, want);
    bt_buf_deinit(&buf);
    bt_jinja_output_deinit(&r.out);
}

static void marks_follow_the_bytes(void **state)
{
    (void)state;
    marked("", "");
    marked("a{{ x }}b", "[a]<D>[b]");
    marked("{{ bos }}{{ 'lit' }}{{ x }}{{ '' }}{{ x }}", "[<B>lit]<D><D>");
    marked("{{ 'a' + x + 'b' }}{{ 'c' ~ x ~ 'd' }}", "[a]<D>[bc]<D>[d]");
    marked("{{ ('ab' + x + 'cd')[1:6] }}", "[b]<D>[c]");
    marked("{{ ('ab' + x + 'cd')[::-1] }}", "[dc]>D<[ba]");
    marked("{{ ('ab' + x)[3] }}{{ ('ab' + x)[0] }}", "D[a]");
    marked("{{ ('  a' + x + '  ') | trim }}{{ (' ' ~ x ~ ' ').strip() }}", "[a]<D><D>");
    marked("{{ ('a' + x) | upper }}{{ ('A' + x).lower() }}", "[A]<D>[a]<d>");
    marked("{{ l | join('|') }}{{ ['p', x] | join }}", "<1>[|]<2>[p]<D>");
    marked("{{ ('a.b' + x).replace('.', x) }}{{ x | replace('D', 'd') }}", "[a]<D>[b]<D><[d]>");
    marked("{% for p in ('a,b' + x + ',c').split(',') %}{{ p }};{% endfor %}", "[a;b]<D>[;c;]");
    marked("{% set t %}q{{ x }}r{% endset %}{{ t }}", "[q]<D>[r]");
    marked("{% macro m(v) %}({{ v }}){% endmacro %}{{ m(x) }}", "[(]<D>[)]");
    marked("{{ x | tojson }}{{ [bos] | tojson }}{{ l }}", "\"<D>\"[\"<B>\"]['<1>', '<2>']");
    marked("{{ (x ~ '\n' ~ x) | indent(2) }}", "<D>[\n  ]<D>");
    marked("{{ '%s-%s' % (x, bos) }}{{ 'n%d' | format(3) }}", "<D>[-<B>n]3");
    marked("{% for c in x + bos %}{{ c }}{% endfor %}", "<D>[<B>]");
    marked(
        "{% set ns = namespace(s='') %}{% for i in l %}{% set ns.s = ns.s + i + '.' %}{% endfor %}"
        "{{ ns.s }}",
        "<1>[.]<2>[.]");
    marked("{% set a = 'k' %}{% set b = a + x %}{% set c = a + 'z' %}{{ b }}{{ c }}{{ a }}",
           "[k]<D>[kzk]");
    marked("{% filter upper %}a{{ x }}{% endfilter %}", "[A]<D>");
    marked("{{ x * 2 }}{{ (x + 'y') * 2 }}", "<D><D><D>[y]<D>[y]");
    marked("{{ 'a'.join(l) }}{{ (l | map('upper') | list)[0] }}", "<1>[a]<2><1>");
}

static void refused(const char *source, bt_status want, const char *words)
{
    result r = render(bt_str_of(source), 10000);
    if (r.status != want || strstr(r.err.message, words) == NULL) {
        fail_msg("%.200s: %s, \"%s\"", source, bt_status_name(r.status), r.err.message);
    }
    bt_jinja_output_deinit(&r.out);
}

static void errors_name_what_and_where(void **state)
{
    (void)state;
    refused("a\n{{ x|nope }}", BT_E_UNSUPPORTED, "line 2: unknown filter \"nope\"");
    refused("\n\n{% if x is nope %}{% endif %}", BT_E_UNSUPPORTED, "line 3: unknown test \"nope\"");
    refused("{{ x.nope() }}", BT_E_UNSUPPORTED, "line 1: unknown method \"nope\"");
    refused("{{ nope() }}", BT_E_UNSUPPORTED, "line 1: unknown function \"nope\"");
    refused("{% include 'x' %}", BT_E_UNSUPPORTED, "line 1: unknown tag \"include\"");
    refused("{{ l|map('nope') }}", BT_E_UNSUPPORTED, "unknown filter \"nope\"");
    refused("{{ l|select('nope') }}", BT_E_UNSUPPORTED, "unknown test \"nope\"");
    refused("{{ l|selectattr('a', 'nope') }}", BT_E_UNSUPPORTED, "unknown test \"nope\"");
    refused("{% for i in l recursive %}{% endfor %}", BT_E_UNSUPPORTED, "recursive");
    refused("{{ f(*l) }}", BT_E_UNSUPPORTED, "unpacked");
    refused("{% if x %}", BT_E_FORMAT, "endif");
    refused("a\n{% for i in l %}\nb", BT_E_FORMAT, "endfor");
    refused("{% endif %}", BT_E_UNSUPPORTED, "endif");
    refused("{{ x", BT_E_FORMAT, "ends inside a tag");
    refused("{{ 'x }}", BT_E_FORMAT, "not closed");
    refused("{# x", BT_E_FORMAT, "not closed");
    refused("{% raw %}x", BT_E_FORMAT, "endraw");
    refused("{{ }}", BT_E_FORMAT, "line 1");
    refused("{{ (1 }}", BT_E_FORMAT, "");
    refused("{{ 1) }}", BT_E_FORMAT, "closing bracket");
    refused("{{ a b }}", BT_E_FORMAT, "");
    refused("{% break %}", BT_E_FORMAT, "outside a loop");
    refused("{% set true = 1 %}", BT_E_FORMAT, "true");
    refused("{{ '\\ud800' }}", BT_E_FORMAT, "escape");
    refused("{{ 99999999999999999999 }}", BT_E_FORMAT, "64 bits");
    refused("\xFF", BT_E_FORMAT, "UTF-8");
    refused("{{ 9223372036854775807 + 1 }}", BT_E_FORMAT, "64 bits");
    refused("\n{{ x + 1 }}", BT_E_FORMAT, "line 2: can only concatenate str (not \"int\") to str");
    refused("{{ y.z }}", BT_E_FORMAT, "'y' is undefined");
    refused("{{ l[5].a }}", BT_E_FORMAT, "has no '5'");
    refused("{{ l.append(1) }}", BT_E_FORMAT, "must not change");
}

/* Case 50: the template's own words come back. */
static void case_50_raise_exception_gives_its_phrase(void **state)
{
    (void)state;
    result r = render(BT_STR("{{ bos }}{{ raise_exception('System role not supported') }}"), 1000);
    assert_int_equal(r.status, BT_E_INVALID);
    assert_string_equal(r.err.message, "System role not supported");
    assert_string_equal(r.err.param, "messages");
}

typedef struct job {
    bt_str source;
    bt_status status;
    char message[BT_ERR_MESSAGE_MAX];
} job;

static void *render_job(void *arg)
{
    job *j = arg;
    result r = render(j->source, 1 << 20);
    j->status = r.status;
    snprintf(j->message, sizeof j->message, "%s", r.err.message);
    bt_jinja_output_deinit(&r.out);
    return NULL;
}

#if defined(__SANITIZE_ADDRESS__)
enum { SMALL_STACK = 4 * 512 * 1024 }; /* red zones make frames larger */
#else
enum { SMALL_STACK = 512 * 1024 };
#endif

/* On a thread with a stack of 512 KiB, as `ulimit -s 512` gives; the seconds it took are bounded. */
static bt_status on_small_stack(bt_str source, char message[BT_ERR_MESSAGE_MAX])
{
    pthread_attr_t attr;
    pthread_t thread;
    job j = {.source = source};
    int64_t start = bt_clock_now_ns();
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, SMALL_STACK);
    assert_int_equal(pthread_create(&thread, &attr, render_job, &j), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    assert_true(bt_clock_now_ns() - start < 60 * BT_NS_PER_S);
    memcpy(message, j.message, BT_ERR_MESSAGE_MAX);
    return j.status;
}

/* n times `open`, `middle`, n times `close`. */
static void nest(const char *open, const char *middle, const char *close, size_t n, bt_buf *buf)
{
    bt_buf_clear(buf);
    for (size_t i = 0; i < n; i++) {
        bt_buf_pushz(buf, open);
    }
    bt_buf_pushz(buf, middle);
    for (size_t i = 0; i < n; i++) {
        bt_buf_pushz(buf, close);
    }
}

/* Case 62: nesting of each kind, shallow and absurd, ends well on a small stack. */
static void case_62_nesting_is_bounded(void **state)
{
    (void)state;
    static const struct {
        const char *before, *open, *middle, *close, *after;
    } kinds[] = {
        {"{{ ", "(", "1", ")", " }}"},
        {"{{ ", "[", "1", "]", " }}"},
        {"{{ ", "{1:", "1", "}", " }}"},
        {"{{ ", "not ", "x", "", " }}"},
        {"{{ ", "-", "1", "", " }}"},
        {"{{ ", "l[", "0", "]", " }}"},
        {"{{ ", "x|default(", "1", ")", " }}"},
        {"{{ ", "1 if x else ", "2", "", " }}"},
        {"{{ ", "", "1", " if x", " }}"},
        {"", "{% if x %}", "a", "{% endif %}", ""},
        {"", "{% for i in l %}{% break %}", "a", "{% endfor %}", ""},
        {"", "{% macro m() %}", "a", "{% endmacro %}", ""},
        {"", "{% set q %}", "a", "{% endset %}", ""},
        {"", "{% filter upper %}", "a", "{% endfilter %}", ""},
        {"", "{% with a = 1 %}", "a", "{% endwith %}", ""},
    };
    static const size_t depths[] = {5, 50, 100, 10000};
    char message[BT_ERR_MESSAGE_MAX];
    bt_buf core;
    bt_buf text;
    bt_buf_init(&core, BT_MEM_TEXT, 1 << 20);
    bt_buf_init(&text, BT_MEM_TEXT, 1 << 20);
    for (size_t k = 0; k < BT_COUNT(kinds); k++) {
        for (size_t d = 0; d < BT_COUNT(depths); d++) {
            nest(kinds[k].open, kinds[k].middle, kinds[k].close, depths[d], &core);
            bt_buf_clear(&text);
            bt_buf_pushz(&text, kinds[k].before);
            bt_buf_push_str(&text, bt_buf_str(&core));
            bt_buf_pushz(&text, kinds[k].after);
            bt_status status = on_small_stack(bt_buf_str(&text), message);
            bool fine = depths[d] >= 100 ? status != BT_OK
                                         : status == BT_OK || strstr(message, "has no") != NULL ||
                                               strstr(message, "nested") != NULL;
            if (!fine || (depths[d] == 5 && status == BT_E_LIMIT)) {
                fail_msg("kind %zu depth %zu: %s %s", k, depths[d], bt_status_name(status),
                         message);
            }
        }
    }
    bt_buf_deinit(&core);
    bt_buf_deinit(&text);
}

/* Long chains do not nest: thousands of operators in a row are fine. */
static void chains_may_be_long(void **state)
{
    (void)state;
    static const char *const links[] = {" + 1",       " ~ x",        " and 1",  " or 0",
                                        " == 1",      " * 1",        "|string", ".real|d(1)",
                                        " is string", " if x else 1"};
    char message[BT_ERR_MESSAGE_MAX];
    bt_buf text;
    bt_buf_init(&text, BT_MEM_TEXT, 1 << 20);
    for (size_t k = 0; k < 7; k++) {
        nest("", "{{ 1", links[k], 5000, &text);
        bt_buf_pushz(&text, " }}");
        bt_status status = on_small_stack(bt_buf_str(&text), message);
        if (status != BT_OK) {
            fail_msg("%s: %s", links[k], message);
        }
    }
    nest("", "{% if 0 %}", "{% elif 0 %}", 5000, &text);
    bt_buf_pushz(&text, "{% endif %}");
    assert_int_equal(on_small_stack(bt_buf_str(&text), message), BT_OK);
    bt_buf_deinit(&text);
}

static void greedy_templates_are_stopped(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m(a) %}{% if true %}{% for i in [1] %}{% set q %}{{ [((m((a))))] | join }}"
        "{% endset %}{{ q }}{% endfor %}{% endif %}{% endmacro %}{{ m(1) }}",
        "{% macro m(a=m()) %}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
        "{{ range(1000000000000) }}",
        "{{ range(-9223372036854775807, 9223372036854775807) }}",
        "{{ 'a' * 1000000000000 }}",
        "{{ [1] * 1000000000000 }}",
        "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}"
        "{% endfor %}",
        "{% set ns = namespace(s=['a']) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}"
        "{% endfor %}",
#if !defined(__SANITIZE_ADDRESS__) /* whose memmem reads all the rest at every call */
        "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s.replace('a', "
        "'abababab') %}{% endfor %}",
#endif
        "{% set ns = namespace(s=1) %}{% for i in range(999) %}{% set ns.s = [ns.s] %}{% endfor %}"
        "{{ ns.s }}",
        "{% set ns = namespace(s=1) %}{% for i in range(999) %}{% set ns.s = {'a': ns.s} %}"
        "{% endfor %}{{ ns.s | tojson }}",
        "{% set ns = namespace(s=[1], t=[1]) %}{% for i in range(999) %}{% set ns.s = [ns.s] %}"
        "{% set ns.t = [ns.t] %}{% endfor %}{{ ns.s == ns.t }}",
        "{% set ns = namespace(s=[1], t=[2]) %}{% for i in range(999) %}{% set ns.s = [ns.s] %}"
        "{% set ns.t = [ns.t] %}{% endfor %}{{ ns.s < ns.t }}",
        "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}",
        "{{ '%200d' % 1 }}{{ '%99999999999d' % 1 }}",
        "{{ ('a' * 900000).rfind('b' + 'a' * 400000) }}{{ ('a' * 900000).rsplit('b' + 'a' * "
        "400000) }}",
        "{{ 2 ** 9999999999 }}",
        "{{ 'x' | center(999999999999) }}",
        "{{ 'x' | indent(999999999999) }}",
        "{{ [1] | tojson(indent=999999999999) }}",
    };
    char message[BT_ERR_MESSAGE_MAX];
    for (size_t i = 0; i < BT_COUNT(sources); i++) {
        bt_status status = on_small_stack(bt_str_of(sources[i]), message);
        if (status != BT_E_LIMIT && status != BT_E_FORMAT) {
            fail_msg("%s: %s %s", sources[i], bt_status_name(status), message);
        }
    }
    result r = render(BT_STR("{% for i in range(1000) %}0123456789{% endfor %}"), 9999);
    assert_int_equal(r.status, BT_E_LIMIT);
    r = render(BT_STR("{% for i in range(1000) %}0123456789{% endfor %}"), 10000);
    assert_int_equal(r.status, BT_OK);
    bt_jinja_output_deinit(&r.out);
}

/* A long chat costs what its text costs: building it up piece by piece is not quadratic. */
static void long_texts_build_up_in_place(void **state)
{
    (void)state;
    result r = render(BT_STR("{% set ns = namespace(s='') %}{% for i in range(50000) %}"
                             "{% set ns.s = ns.s + x + 'abcdefgh' %}{% endfor %}{{ ns.s }}"),
                      1 << 20);
    if (r.status != BT_OK) {
        fail_msg("%s", r.err.message);
    }
    assert_int_equal(r.out.n, 50000 * 11);
    assert_int_equal(r.out.n_runs, 100000);
    bt_jinja_output_deinit(&r.out);
}

static void memory_failures_are_reported(void **state)
{
    (void)state;
    const bt_str source =
        BT_STR("{% macro m(a) %}{{ a|upper }}{% endmacro %}{% for i in l %}{{ m(i) }}"
               "{% endfor %}{{ l|tojson }}");
    bt_json *list;
    assert_int_equal(bt_json_parse(BT_STR("[\"a\",\"b\"]"), &list, NULL), BT_OK);
    const bt_jinja_var var = {.name = "l", .json = list};
    const bt_jinja_args args = {.vars = &var, .n_vars = 1, .output_max = 1000};
    size_t before = bt_mem_used(BT_MEM_TEXT);
    for (uint64_t n = 1;; n++) {
        bt_jinja *tmpl = NULL;
        bt_jinja_output out = {0};
        bt_mem_fail_after(n);
        bt_status status = bt_jinja_open(source, &tmpl, NULL);
        if (status == BT_OK) {
            status = bt_jinja_render(tmpl, &args, &out, NULL);
        }
        bt_mem_fail_after(0);
        bt_jinja_output_deinit(&out);
        bt_jinja_close(tmpl);
        assert_int_equal(bt_mem_used(BT_MEM_TEXT), before);
        if (status == BT_OK) {
            assert_true(n > 4);
            break;
        }
        assert_int_equal(status, BT_E_NO_MEMORY);
    }
    bt_json_close(list);
}

typedef struct shared_job {
    const bt_jinja *tmpl;
    bool same;
} shared_job;

static void *render_shared(void *arg)
{
    shared_job *j = arg;
    j->same = true;
    for (int i = 0; i < 200; i++) {
        const bt_jinja_args args = {.output_max = 1000};
        bt_jinja_output out;
        if (bt_jinja_render(j->tmpl, &args, &out, NULL) != BT_OK) {
            j->same = false;
            break;
        }
        j->same = j->same && strcmp(out.text, "0a1a2a['0', '1', '2']") == 0;
        bt_jinja_output_deinit(&out);
    }
    return NULL;
}

static void one_template_renders_on_several_threads(void **state)
{
    (void)state;
    bt_jinja *tmpl;
    assert_int_equal(
        bt_jinja_open(BT_STR("{% macro m(a) %}{{ a }}a{% endmacro %}{% for i in range(3) "
                             "%}{{ m(i) }}{% endfor %}{{ range(3)|map('string')|list }}"),
                      &tmpl, NULL),
        BT_OK);
    pthread_t threads[4];
    shared_job jobs[4];
    for (int i = 0; i < 4; i++) {
        jobs[i] = (shared_job){.tmpl = tmpl};
        assert_int_equal(pthread_create(&threads[i], NULL, render_shared, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(jobs[i].same);
    }
    bt_jinja_close(tmpl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_follow_the_bytes),
        cmocka_unit_test(errors_name_what_and_where),
        cmocka_unit_test(case_50_raise_exception_gives_its_phrase),
        cmocka_unit_test(case_62_nesting_is_bounded),
        cmocka_unit_test(chains_may_be_long),
        cmocka_unit_test(greedy_templates_are_stopped),
        cmocka_unit_test(long_texts_build_up_in_place),
        cmocka_unit_test(memory_failures_are_reported),
        cmocka_unit_test(one_template_renders_on_several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
