/* SPDX-License-Identifier: MIT
 *
 * Prometheus text format 0.0.4. Labels as vLLM: model_name and engine. */
#include "api/metrics.h"

#include "base/mem.h"
#include "text/real.h"

#include <inttypes.h>

typedef struct page {
    bt_buf *out;
    bt_buf labels; /* model_name="…",engine="0" */
} page;

static void head(page *p, const char *name, const char *type, const char *help)
{
    bt_buf_printf(p->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void push_real(page *p, double value)
{
    char text[BT_REAL_TEXT_MAX];
    (void)bt_real_format(value, text);
    bt_buf_pushz(p->out, text);
}

static void gauge(page *p, const char *name, double value, const char *help)
{
    head(p, name, "gauge", help);
    bt_buf_printf(p->out, "%s{%s} ", name, p->labels.p);
    push_real(p, value);
    bt_buf_pushz(p->out, "\n");
}

static void counter(page *p, const char *name, uint64_t value, const char *help)
{
    head(p, name, "counter", help);
    bt_buf_printf(p->out, "%s{%s} %" PRIu64 "\n", name, p->labels.p, value);
}

static void histogram(page *p, const char *name, const betoken_histogram *h, const char *help)
{
    head(p, name, "histogram", help);
    for (int i = 0; i < h->n_buckets && i < BETOKEN_BUCKETS_MAX; i++) {
        bt_buf_printf(p->out, "%s_bucket{%s,le=\"", name, p->labels.p);
        push_real(p, h->bound[i]);
        bt_buf_printf(p->out, "\"} %" PRIu64 "\n", h->count[i]);
    }
    bt_buf_printf(p->out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, p->labels.p, h->n);
    bt_buf_printf(p->out, "%s_sum{%s} ", name, p->labels.p);
    push_real(p, h->sum);
    bt_buf_printf(p->out, "\n%s_count{%s} %" PRIu64 "\n", name, p->labels.p, h->n);
}

static void finished(page *p, const betoken_stats *s)
{
    const struct {
        const char *reason;
        uint64_t n;
    } rows[] = {{"stop", s->finished_stop},
                {"length", s->finished_length},
                {"abort", s->finished_abort},
                {"error", s->finished_error}};
    const char *name = "vllm:request_success_total";
    head(p, name, "counter", "Requests that have ended, by reason.");
    for (size_t i = 0; i < BT_COUNT(rows); i++) {
        bt_buf_printf(p->out, "%s{%s,finished_reason=\"%s\"} %" PRIu64 "\n", name, p->labels.p,
                      rows[i].reason, rows[i].n);
    }
}

static void speculation(page *p, const betoken_stats *s, const betoken_info *info)
{
    counter(p, "vllm:spec_decode_num_drafts_total", s->drafts,
            "Verification steps with drafted tokens, one for each sequence.");
    counter(p, "vllm:spec_decode_num_draft_tokens_total", s->draft_tokens, "Tokens drafted.");
    counter(p, "vllm:spec_decode_num_accepted_tokens_total", s->accepted_tokens,
            "Drafted tokens that became part of an answer.");
    const char *name = "vllm:spec_decode_num_accepted_tokens_per_pos_total";
    head(p, name, "counter", "Accepted drafted tokens by their position in the draft.");
    for (int i = 0; i < info->num_speculative_tokens && i < BETOKEN_SPEC_TOKENS_MAX; i++) {
        bt_buf_printf(p->out, "%s{%s,position=\"%d\"} %" PRIu64 "\n", name, p->labels.p, i,
                      s->accepted_per_pos[i]);
    }
    counter(p, "betoken_spec_decode_accepted_discarded_total", s->accepted_discarded,
            "Drafted tokens that the target agreed with, behind the end of the answer.");
    counter(p, "betoken_forward_passes_total", s->steps, "Forward passes of the target model.");
}

static void latencies(page *p, const betoken_stats *s)
{
    histogram(p, "vllm:time_to_first_token_seconds", &s->time_to_first_token_s,
              "From arrival to the first token.");
    histogram(p, "vllm:inter_token_latency_seconds", &s->inter_token_s,
              "Between two tokens of an answer.");
    histogram(p, "vllm:e2e_request_latency_seconds", &s->e2e_s, "From arrival to the end.");
    histogram(p, "vllm:request_queue_time_seconds", &s->queue_s, "Waiting to run.");
    histogram(p, "vllm:request_prefill_time_seconds", &s->prefill_s,
              "From the start to the first token.");
    histogram(p, "vllm:request_decode_time_seconds", &s->decode_s,
              "From the first token to the end.");
    histogram(p, "vllm:request_prompt_tokens", &s->prompt_length, "Tokens of a prompt.");
    histogram(p, "vllm:request_generation_tokens", &s->generation_length, "Tokens of an answer.");
    histogram(p, "vllm:iteration_tokens_total", &s->iteration_tokens,
              "Rows of a forward pass of the target model.");
}

static void process(page *p, const bt_api_http_counts *http)
{
    counter(p, "betoken_http_connections_total", http->connections, "Connections accepted.");
    counter(p, "betoken_http_requests_total", http->requests, "Request heads read.");
    counter(p, "betoken_http_bad_requests_total", http->bad,
            "Requests refused for breaking HTTP or its limits.");
    counter(p, "betoken_http_gone_total", http->gone, "Requests whose client left early.");
    counter(p, "betoken_http_timeouts_total", http->timeouts, "Connections closed by a deadline.");
    gauge(p, "betoken_http_connections", http->connections_now, "Connections now.");
    gauge(p, "betoken_http_requests_running", http->requests_now, "Requests being answered now.");
    head(p, "betoken_memory_bytes", "gauge", "Memory in use, by purpose.");
    for (int i = 0; i < BT_MEM_TAG_COUNT; i++) {
        bt_buf_printf(p->out, "betoken_memory_bytes{%s,purpose=\"%s\"} %zu\n", p->labels.p,
                      bt_mem_tag_name((bt_mem_tag)i), bt_mem_used((bt_mem_tag)i));
    }
}

static void make_labels(bt_buf *labels, const char *model)
{
    bt_buf_init(labels, BT_MEM_TEXT, BT_API_METRICS_MAX);
    bt_buf_pushz(labels, "model_name=\"");
    for (const char *c = model; *c != '\0'; c++) {
        if (*c == '\\' || *c == '"') {
            bt_buf_push_char(labels, '\\');
        }
        bt_buf_pushz(labels, *c == '\n' ? "\\n" : "");
        if (*c != '\n') {
            bt_buf_push_char(labels, *c);
        }
    }
    bt_buf_pushz(labels, "\",engine=\"0\"");
}

void bt_api_metrics_body(const betoken_stats *stats, const betoken_info *info,
                         const bt_api_http_counts *http, const char *model, bt_buf *out)
{
    page p = {.out = out};
    make_labels(&p.labels, model);
    if (bt_buf_ok(&p.labels) == BT_OK) {
        gauge(&p, "vllm:num_requests_running", stats->running, "Requests that run now.");
        gauge(&p, "vllm:num_requests_waiting", stats->waiting, "Requests that wait to run.");
        gauge(&p, "vllm:kv_cache_usage_perc", stats->kv_usage,
              "Share of the cache in use, 0 to 1.");
        counter(&p, "vllm:prompt_tokens_total", stats->prompt_tokens, "Prompt tokens processed.");
        counter(&p, "vllm:generation_tokens_total", stats->generation_tokens, "Tokens generated.");
        finished(&p, stats);
        speculation(&p, stats, info);
        latencies(&p, stats);
        head(&p, "vllm:cache_config_info", "gauge", "The cache: a constant 1 with its sizes.");
        bt_buf_printf(out, "vllm:cache_config_info{%s,block_size=\"%d\",num_blocks=\"%d\"} 1\n",
                      p.labels.p, info->kv_block_size, info->kv_blocks);
        process(&p, http);
    }
    bt_buf_deinit(&p.labels);
}
