/* SPDX-License-Identifier: MIT
 *
 * conn.c: one connection: input through the parser to the callbacks, deadlines, disconnects, and
 * the lingering close (RFC 9112 9.6). The states are drawn in conn.h.
 *
 * Deadlines are absolute, so that a client cannot hold a connection by sending a byte now and
 * then; none runs while a request is queued or computing. Reading stays on while a request runs:
 * that is how a client that leaves is seen. */
#include "http/conn.h"

#include "base/clock.h"
#include "base/log.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct evbuffer *bt_http_conn_output(const bt_http_conn *conn)
{
    return bufferevent_get_output(conn->bev);
}

static size_t output_length(const bt_http_conn *conn)
{
    return evbuffer_get_length(bt_http_conn_output(conn));
}

static size_t input_length(const bt_http_conn *conn)
{
    return evbuffer_get_length(bufferevent_get_input(conn->bev));
}

/* Time that moved bytes earn at the minimum rate; a hundred days at most. */
static int64_t credit_ns(uint64_t bytes, int64_t rate)
{
    uint64_t s = BT_MIN(bytes / (uint64_t)rate, UINT64_C(8640000));
    return (int64_t)s * BT_NS_PER_S;
}

static int64_t output_deadline_ns(const bt_http_conn *conn)
{
    const bt_http_config *config = &conn->server->config;
    return output_length(conn) == 0 ? INT64_MAX
                                    : conn->out_since_ns + config->drain_ns +
                                          credit_ns(conn->out_sent, config->rate_min);
}

static int64_t input_deadline_ns(const bt_http_conn *conn)
{
    const bt_http_config *config = &conn->server->config;
    if (conn->state == BT_HTTP_CONN_LINGER) {
        return conn->since_ns + config->linger_ns;
    }
    if (conn->state != BT_HTTP_CONN_READ || conn->blocked) {
        return INT64_MAX;
    }
    if (conn->request.phase == BT_HTTP_PHASE_BODY) {
        return conn->since_ns + config->body_ns +
               credit_ns(conn->parser.body_got, config->rate_min);
    }
    bool idle = conn->n_requests > 0 && !conn->in_head;
    return conn->since_ns + (idle ? config->idle_ns : config->head_ns);
}

void bt_http_conn_arm(bt_http_conn *conn)
{
    int64_t at = BT_MIN(input_deadline_ns(conn), output_deadline_ns(conn));
    /* A timer that fires too early looks again; only an earlier deadline costs a call. */
    if (conn->state == BT_HTTP_CONN_DEAD || at >= conn->armed_ns) {
        return;
    }
    int64_t wait = BT_MAX(at - bt_clock_now_ns(), (int64_t)0);
    struct timeval tv = {.tv_sec = wait / BT_NS_PER_S, .tv_usec = wait % BT_NS_PER_S / 1000};
    if (evtimer_add(conn->timer, &tv) == 0) {
        conn->armed_ns = at;
    }
}

void bt_http_conn_resume(bt_http_conn *conn)
{
    if (conn->state != BT_HTTP_CONN_DEAD) {
        event_active(conn->resume, EV_TIMEOUT, 0);
    }
}

static void on_output(struct evbuffer *output, const struct evbuffer_cb_info *info, void *arg)
{
    (void)output;
    bt_http_conn *conn = arg;
    if (info->orig_size == 0 && info->n_added > 0) {
        conn->out_since_ns = bt_clock_now_ns();
        conn->out_sent = 0;
        bt_http_conn_arm(conn);
    }
    conn->out_sent += info->n_deleted;
}

static void close_now(bt_http_conn *conn)
{
    BT_ASSERT(conn->state != BT_HTTP_CONN_DEAD && conn->request.phase <= BT_HTTP_PHASE_BODY);
    conn->state = BT_HTTP_CONN_DEAD;
    bt_http_request_clear(&conn->request);
    bt_http_parser_deinit(&conn->parser);
    if (conn->bev != NULL) {
        evbuffer_remove_cb(bt_http_conn_output(conn), on_output, conn);
        bufferevent_free(conn->bev);
        conn->bev = NULL;
    }
    if (conn->timer != NULL) {
        event_free(conn->timer);
    }
    if (conn->resume != NULL) {
        event_free(conn->resume);
    }
    bt_http_server_bury(conn->server, conn);
}

void bt_http_conn_drop(bt_http_conn *conn)
{
    bt_http_request *request = &conn->request;
    bt_http_server *server = conn->server;
    if (request->phase >= BT_HTTP_PHASE_RUN) {
        BT_ASSERT(request->phase != BT_HTTP_PHASE_GONE);
        request->phase = BT_HTTP_PHASE_GONE;
        server->stats.n_running--;
        server->stats.n_gone++;
        if (server->config.gone != NULL) {
            server->config.gone(server->config.ctx, request);
        }
        request->phase = BT_HTTP_PHASE_NONE;
    }
    close_now(conn);
}

/* All output is with the system: tell the peer that no more comes, and give it time to read. A
 * close with unread input would reset the connection and might take the answer with it. */
static void begin_linger(bt_http_conn *conn)
{
    if (conn->eof || shutdown(bufferevent_getfd(conn->bev), SHUT_WR) != 0) {
        bt_http_conn_drop(conn);
        return;
    }
    conn->state = BT_HTTP_CONN_LINGER;
    conn->since_ns = bt_clock_now_ns();
    bt_http_conn_arm(conn);
}

static void drain_input(bt_http_conn *conn)
{
    evbuffer_drain(bufferevent_get_input(conn->bev), input_length(conn));
}

static void take_head(bt_http_conn *conn)
{
    bt_http_server *server = conn->server;
    bt_http_request *request = &conn->request;
    bt_http_parser *parser = &conn->parser;
    conn->in_head = false;
    conn->n_requests++;
    conn->since_ns = bt_clock_now_ns();
    server->stats.n_requests++;
    request->id = ++server->next_id;
    request->phase = BT_HTTP_PHASE_HEAD;
    request->user = NULL;
    request->no_body = bt_str_eqz(bt_http_request_method(request), "HEAD");
    uint64_t body_max = server->config.body_max;
    if (server->config.head != NULL) {
        server->config.head(server->config.ctx, request, &body_max);
    }
    if (request->phase != BT_HTTP_PHASE_HEAD) {
        return; /* answered: refused before its body */
    }
    request->phase = BT_HTTP_PHASE_BODY;
    parser->body_max = BT_MIN(body_max, BT_HTTP_BODY_MAX);
    bt_buf_init(&request->body, BT_MEM_HTTP, (size_t)parser->body_max);
    if (parser->expect_continue && bt_http_parser_has_body(parser) &&
        parser->length <= parser->body_max && input_length(conn) == 0) {
        evbuffer_add(bt_http_conn_output(conn), "HTTP/1.1 100 Continue\r\n\r\n", 25);
    }
}

static void take_body(bt_http_conn *conn, bt_str data)
{
    bt_http_server *server = conn->server;
    if (data.n > server->config.body_bytes_max - server->stats.body_bytes) {
        bt_http_conn_refuse(conn, 503, "too many request bodies are being received; try again");
        return;
    }
    bt_buf_push_str(&conn->request.body, data);
    if (bt_buf_ok(&conn->request.body) != BT_OK) {
        bt_http_conn_refuse(conn, 503, "out of memory for the request body; try again");
        return;
    }
    server->stats.body_bytes += data.n;
    conn->request.body_counted += data.n;
}

static void begin_run(bt_http_conn *conn)
{
    bt_http_server *server = conn->server;
    conn->request.phase = BT_HTTP_PHASE_RUN;
    conn->state = BT_HTTP_CONN_RUN;
    server->stats.n_running++;
    server->config.request(server->config.ctx, &conn->request);
}

/* The peer sends no more, and all that it sent has been read. */
static void read_eof(bt_http_conn *conn)
{
    bt_http_event event = bt_http_parser_eof(&conn->parser);
    if (event == BT_HTTP_BAD) {
        bt_http_conn_refuse(conn, conn->parser.bad_status, conn->parser.bad_why);
    } else {
        conn->state = BT_HTTP_CONN_FLUSH;
    }
}

/* Reads one event from the input. False: nothing more can be done now. */
static bool step(bt_http_conn *conn)
{
    struct evbuffer *input = bufferevent_get_input(conn->bev);
    struct evbuffer_iovec piece = {0};
    if (evbuffer_peek(input, -1, NULL, &piece, 1) < 1) {
        piece = (struct evbuffer_iovec){0};
    }
    size_t used;
    bt_str data = {0};
    bt_http_event event =
        bt_http_parser_next(&conn->parser, piece.iov_base, piece.iov_len, &used, &data);
    if (event == BT_HTTP_DATA) {
        take_body(conn, data);
    }
    evbuffer_drain(input, used);
    switch (event) {
    case BT_HTTP_HEAD:
        take_head(conn);
        return true;
    case BT_HTTP_DATA:
        return true;
    case BT_HTTP_DONE:
        begin_run(conn);
        return true;
    case BT_HTTP_BAD:
        bt_http_conn_refuse(conn, conn->parser.bad_status, conn->parser.bad_why);
        return true;
    default:
        break;
    }
    if (input_length(conn) > 0) {
        return true;
    }
    if (conn->eof) {
        read_eof(conn);
    } else if (!bt_http_parser_is_idle(&conn->parser) &&
               conn->request.phase == BT_HTTP_PHASE_NONE && !conn->in_head) {
        conn->in_head = true;
        if (conn->n_requests > 0) {
            conn->since_ns = bt_clock_now_ns();
        }
    }
    return false;
}

/* Reads as much as the state allows. May end with the connection closed. */
static void process(bt_http_conn *conn)
{
    BT_ASSERT(!conn->in_process);
    conn->in_process = true;
    uint64_t n_before = conn->n_requests;
    while (conn->state == BT_HTTP_CONN_READ && !conn->doomed) {
        if (output_length(conn) > BT_HTTP_OUT_HIGH) {
            /* A client that asks without reading the answers waits for itself. */
            conn->blocked = true;
            break;
        }
        if (conn->n_requests - n_before >= BT_HTTP_TURN_MAX &&
            conn->request.phase == BT_HTTP_PHASE_NONE) {
            bt_http_conn_resume(conn);
            break;
        }
        if (!step(conn)) {
            break;
        }
    }
    conn->in_process = false;
    if (conn->doomed) {
        bt_http_conn_drop(conn);
        return;
    }
    if (conn->state == BT_HTTP_CONN_FLUSH) {
        drain_input(conn);
        if (output_length(conn) == 0) {
            begin_linger(conn);
            return;
        }
    }
    bt_http_conn_arm(conn);
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    process(arg);
}

static void on_read(struct bufferevent *bev, void *arg)
{
    (void)bev;
    bt_http_conn *conn = arg;
    if (conn->state == BT_HTTP_CONN_READ) {
        process(conn);
    } else if (conn->state == BT_HTTP_CONN_RUN) {
        if (input_length(conn) >= BT_HTTP_IN_HIGH) {
            /* Unread input hides the end of the connection behind it. */
            bt_log(BT_LOG_DEBUG, "http abuse", "peer=%s more than %d bytes sent during a request",
                   conn->peer, BT_HTTP_IN_HIGH);
            bt_http_conn_drop(conn);
        }
    } else {
        drain_input(conn);
    }
}

static void on_write(struct bufferevent *bev, void *arg)
{
    (void)bev;
    bt_http_conn *conn = arg;
    bt_http_server *server = conn->server;
    size_t waiting = output_length(conn);
    if (conn->state == BT_HTTP_CONN_FLUSH) {
        if (waiting == 0) {
            begin_linger(conn);
        }
        return;
    }
    if (waiting > BT_HTTP_OUT_LOW) {
        return;
    }
    if (conn->request.paused) {
        conn->request.paused = false;
        if (conn->request.phase == BT_HTTP_PHASE_STREAM && server->config.drained != NULL) {
            server->config.drained(server->config.ctx, &conn->request);
        }
    }
    if (conn->blocked) {
        conn->blocked = false;
        process(conn);
    }
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    (void)bev;
    bt_http_conn *conn = arg;
    if ((what & BEV_EVENT_EOF) == 0) {
        bt_http_conn_drop(conn);
        return;
    }
    conn->eof = true;
    if (conn->state == BT_HTTP_CONN_READ) {
        if (!conn->blocked) {
            process(conn);
        }
    } else if (conn->state != BT_HTTP_CONN_FLUSH) {
        bt_http_conn_drop(conn);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    bt_http_conn *conn = arg;
    int64_t now = bt_clock_now_ns();
    conn->armed_ns = INT64_MAX;
    bool slow_output = output_deadline_ns(conn) <= now;
    if (!slow_output && input_deadline_ns(conn) > now) {
        bt_http_conn_arm(conn);
        return;
    }
    conn->server->stats.n_timeout++;
    if (slow_output || conn->state != BT_HTTP_CONN_READ ||
        (conn->request.phase == BT_HTTP_PHASE_NONE && !conn->in_head)) {
        bt_http_conn_drop(conn);
        return;
    }
    bool head = conn->in_head;
    conn->in_process = true;
    bt_http_conn_refuse(conn, 408, head ? "the header took too long" : "the body took too long");
    conn->in_process = false;
    drain_input(conn);
    bt_http_conn_arm(conn);
}

/* Keep-alive probes find a peer whose machine vanished while its request computes. */
static void set_options(int fd)
{
    int on = 1;
    int idle_s = 60;
    int interval_s = 15;
    int n_probes = 4;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &n_probes, sizeof n_probes);
}

bool bt_http_conn_open(bt_http_server *server, int fd, const char *peer)
{
    bt_http_conn *conn = bt_mem_calloc(BT_MEM_HTTP, 1, sizeof *conn);
    if (conn == NULL) {
        close(fd);
        return false;
    }
    conn->server = server;
    conn->request.conn = conn;
    conn->armed_ns = INT64_MAX;
    conn->since_ns = bt_clock_now_ns();
    memcpy(conn->peer, peer, strnlen(peer, sizeof conn->peer - 1));
    bt_http_parser_init(&conn->parser, BT_HTTP_REQUEST, BT_MEM_HTTP);
    conn->next = server->conns;
    if (conn->next != NULL) {
        conn->next->prev = conn;
    }
    server->conns = conn;
    server->stats.n_connections++;
    set_options(fd);
    conn->bev = bufferevent_socket_new(server->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (conn->bev == NULL) {
        close(fd);
    }
    conn->timer = evtimer_new(server->base, on_timer, conn);
    conn->resume = event_new(server->base, -1, 0, on_resume, conn);
    if (conn->bev == NULL || conn->timer == NULL || conn->resume == NULL ||
        evbuffer_add_cb(bt_http_conn_output(conn), on_output, conn) == NULL) {
        close_now(conn);
        return false;
    }
    bufferevent_setcb(conn->bev, on_read, on_write, on_event, conn);
    bufferevent_setwatermark(conn->bev, EV_READ, 0, BT_HTTP_IN_HIGH);
    bufferevent_setwatermark(conn->bev, EV_WRITE, BT_HTTP_OUT_LOW, 0);
    bufferevent_set_max_single_read(conn->bev, BT_HTTP_IN_HIGH);
    bufferevent_set_max_single_write(conn->bev, BT_HTTP_OUT_LOW);
    bufferevent_enable(conn->bev, EV_READ | EV_WRITE);
    bt_http_conn_arm(conn);
    return true;
}

void bt_http_conn_quiesce(bt_http_conn *conn)
{
    if (conn->state != BT_HTTP_CONN_READ || conn->request.phase != BT_HTTP_PHASE_NONE ||
        conn->in_head || input_length(conn) > 0) {
        return;
    }
    if (output_length(conn) == 0) {
        bt_http_conn_drop(conn);
    } else {
        conn->state = BT_HTTP_CONN_FLUSH;
    }
}
