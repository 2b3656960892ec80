/* SPDX-License-Identifier: MIT */
#include "bench/report.h"

#include "base/cpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_cpu(char *out, size_t n)
{
    (void)snprintf(out, n, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            (void)snprintf(out, n, "%s", colon + 1 + strspn(colon + 1, " "));
            out[strcspn(out, "\n")] = '\0';
            break;
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
}

bt_bench_machine bt_bench_machine_of(int n_threads)
{
    (void)bt_cpu_init(NULL);
    bt_bench_machine m = {.kernel = bt_cpu_isa_name(bt_cpu_isa()),
                          .n_cores = bt_cpu_threads(),
                          .n_threads = n_threads};
    read_cpu(m.cpu, sizeof m.cpu);
    double load[1];
    m.load = getloadavg(load, 1) == 1 ? load[0] : 0;
    return m;
}

void bt_bench_machine_json(bt_jsonw *w, const bt_bench_machine *m)
{
    bt_jsonw_open(w, '{');
    bt_jsonw_key(w, "cpu");
    bt_jsonw_strz(w, m->cpu);
    bt_jsonw_key(w, "kernel");
    bt_jsonw_strz(w, m->kernel);
    bt_jsonw_key(w, "cores");
    bt_jsonw_int(w, m->n_cores);
    bt_jsonw_key(w, "threads");
    bt_jsonw_int(w, m->n_threads);
    bt_jsonw_key(w, "load_before");
    bt_jsonw_real(w, m->load);
    bt_jsonw_close(w, '}');
}

void bt_bench_machine_text(bt_buf *out, const bt_bench_machine *m)
{
    bt_buf_printf(out, "machine: %s, %d cores, %d threads, %s kernels, load before %.1f\n", m->cpu,
                  m->n_cores, m->n_threads, m->kernel, m->load);
}

static void key_real(bt_jsonw *w, const char *key, double value)
{
    bt_jsonw_key(w, key);
    bt_jsonw_real(w, value);
}

void bt_bench_stat_json(bt_jsonw *w, const bt_bench_stat *s)
{
    bt_jsonw_open(w, '{');
    key_real(w, "median", s->median);
    key_real(w, "low", s->low);
    key_real(w, "high", s->high);
    key_real(w, "min", s->min);
    key_real(w, "max", s->max);
    bt_jsonw_key(w, "n");
    bt_jsonw_int(w, s->n);
    bt_jsonw_close(w, '}');
}

static void side_json(bt_jsonw *w, const char *key, const char *name, const double *samples, int n)
{
    bt_bench_stat s = bt_bench_stat_of(samples, n);
    bt_jsonw_key(w, key);
    bt_jsonw_open(w, '{');
    bt_jsonw_key(w, "name");
    bt_jsonw_strz(w, name);
    bt_jsonw_key(w, "tokens_per_s");
    bt_bench_stat_json(w, &s);
    bt_jsonw_key(w, "samples");
    bt_jsonw_open(w, '[');
    for (int i = 0; i < n; i++) {
        bt_jsonw_real(w, samples[i]);
    }
    bt_jsonw_close(w, ']');
    bt_jsonw_close(w, '}');
}

void bt_bench_pair_json(bt_jsonw *w, const bt_bench_pair *p)
{
    bt_bench_ratio r = bt_bench_ratio_of(p->a, p->b, p->n);
    bt_jsonw_open(w, '{');
    bt_jsonw_key(w, "case");
    bt_jsonw_strz(w, p->name);
    side_json(w, "a", p->a_name, p->a, p->n);
    side_json(w, "b", p->b_name, p->b, p->n);
    bt_jsonw_key(w, "ratio");
    bt_jsonw_open(w, '{');
    key_real(w, "of_medians", r.of_medians);
    key_real(w, "of_bests", r.of_bests);
    bt_jsonw_key(w, "pairs");
    bt_bench_stat_json(w, &r.pairs);
    bt_jsonw_close(w, '}');
    bt_jsonw_close(w, '}');
}

void bt_bench_pair_row(bt_buf *out, const bt_bench_pair *p, bool header)
{
    if (header) {
        bt_buf_printf(out, "%-10s %21.20s  %21.20s   ratio: medians  bests  pairs min…max\n",
                      "tok/s", p->a_name, p->b_name);
        return;
    }
    bt_bench_stat a = bt_bench_stat_of(p->a, p->n), b = bt_bench_stat_of(p->b, p->n);
    bt_bench_ratio r = bt_bench_ratio_of(p->a, p->b, p->n);
    bt_buf_printf(out,
                  "%-10s %7.1f (%5.1f…%5.1f)  %7.1f (%5.1f…%5.1f)          %7.2f  %5.2f  "
                  "%.2f…%.2f\n",
                  p->name, a.median, a.min, a.max, b.median, b.min, b.max, r.of_medians, r.of_bests,
                  r.pairs.min, r.pairs.max);
}

void bt_bench_pair_line(bt_buf *out, const bt_bench_pair *p)
{
    bt_bench_ratio r = bt_bench_ratio_of(p->a, p->b, p->n);
    bt_buf_printf(out, "%s: %s %.1f tok/s, %s %.1f tok/s, ratio %.2f (pairs %.2f…%.2f)\n", p->name,
                  p->a_name, bt_bench_stat_of(p->a, p->n).median, p->b_name,
                  bt_bench_stat_of(p->b, p->n).median, r.of_medians, r.pairs.min, r.pairs.max);
}

typedef enum field { FIRST_MS, DECODE, PREFILL, TOTAL_MS } field;

static bt_bench_stat stat_of(const bt_bench_latency *l, field which)
{
    double samples[BT_BENCH_ROUNDS_MAX];
    BT_ASSERT(l->n >= 1 && l->n <= BT_BENCH_ROUNDS_MAX);
    for (int i = 0; i < l->n; i++) {
        const bt_bench_answer *a = &l->answer[i];
        samples[i] = which == FIRST_MS  ? a->first_token_ms
                     : which == DECODE  ? a->decode_tok_s
                     : which == PREFILL ? a->prefill_tok_s
                                        : a->total_ms;
    }
    return bt_bench_stat_of(samples, l->n);
}

typedef struct guesses {
    int64_t drafted, accepted, tokens, steps;
} guesses;

static guesses count_guesses(const bt_bench_latency *l)
{
    guesses g = {0};
    for (int i = 0; i < l->n; i++) {
        g.drafted += l->answer[i].drafted;
        g.accepted += l->answer[i].accepted;
        g.tokens += l->answer[i].n_tokens;
        g.steps += l->answer[i].steps;
    }
    return g;
}

static double tokens_per_step(guesses g)
{
    return g.steps > 0 ? (double)g.tokens / (double)g.steps : 1;
}

double bt_bench_bandwidth_share(const bt_bench_latency *l)
{
    double steps_s = stat_of(l, DECODE).median / tokens_per_step(count_guesses(l));
    double read = l->ceilings->read_all_gbs * 1e9;
    return read > 0 ? (double)l->weight_bytes * steps_s / read : 0;
}

void bt_bench_latency_json(bt_jsonw *w, const bt_bench_latency *l)
{
    static const struct {
        const char *key;
        field which;
    } stats[] = {{"first_token_ms", FIRST_MS},
                 {"decode_tokens_per_s", DECODE},
                 {"prefill_tokens_per_s", PREFILL},
                 {"total_ms", TOTAL_MS}};
    guesses g = count_guesses(l);
    bt_jsonw_key(w, "model");
    bt_jsonw_strz(w, l->model);
    bt_jsonw_key(w, "input_len");
    bt_jsonw_int(w, l->n_prompt);
    bt_jsonw_key(w, "output_len");
    bt_jsonw_int(w, l->n_output);
    for (size_t i = 0; i < BT_COUNT(stats); i++) {
        bt_bench_stat s = stat_of(l, stats[i].which);
        bt_jsonw_key(w, stats[i].key);
        bt_bench_stat_json(w, &s);
    }
    key_real(w, "ms_per_token", 1e3 / BT_MAX(stat_of(l, DECODE).median, 1e-9));
    bt_jsonw_key(w, "weight_bytes");
    bt_jsonw_int(w, (int64_t)l->weight_bytes);
    key_real(w, "read_gb_per_s", l->ceilings->read_all_gbs);
    key_real(w, "share_of_read_bandwidth", bt_bench_bandwidth_share(l));
    bt_jsonw_key(w, "speculation");
    bt_jsonw_open(w, '{');
    bt_jsonw_key(w, "drafted");
    bt_jsonw_int(w, g.drafted);
    bt_jsonw_key(w, "accepted");
    bt_jsonw_int(w, g.accepted);
    bt_jsonw_key(w, "steps");
    bt_jsonw_int(w, g.steps);
    key_real(w, "tokens_per_step", tokens_per_step(g));
    bt_jsonw_close(w, '}');
}

void bt_bench_latency_text(bt_buf *out, const bt_bench_latency *l)
{
    bt_bench_stat first = stat_of(l, FIRST_MS), decode = stat_of(l, DECODE);
    guesses g = count_guesses(l);
    bt_buf_printf(out, "model: %s, %.1f MB of weights; prompt %d, answer %d tokens, %d runs\n",
                  l->model, (double)l->weight_bytes * 1e-6, l->n_prompt, l->n_output, l->n);
    bt_buf_printf(out, "%-28s %10s  %s\n", "", "median", "min…max");
    bt_buf_printf(out, "%-28s %10.2f  %.2f…%.2f\n", "time to first token, ms", first.median,
                  first.min, first.max);
    bt_buf_printf(out, "%-28s %10.1f  %.1f…%.1f\n", "decode, tokens/s", decode.median, decode.min,
                  decode.max);
    bt_buf_printf(out, "%-28s %10.3f  %.3f…%.3f\n", "ms a token", 1e3 / decode.median,
                  1e3 / decode.max, 1e3 / decode.min);
    bt_buf_printf(out, "%-28s %10.2f  of %.1f GB/s (%zu MiB read by %d threads)\n",
                  "share of read bandwidth", bt_bench_bandwidth_share(l), l->ceilings->read_all_gbs,
                  l->ceilings->bytes >> 20, l->ceilings->n_threads);
    if (g.drafted > 0) {
        bt_buf_printf(out, "%-28s %10.2f  %" PRId64 " of %" PRId64 " guesses kept\n",
                      "tokens a step", tokens_per_step(g), g.accepted, g.drafted);
    }
}
