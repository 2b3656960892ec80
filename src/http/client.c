/* SPDX-License-Identifier: MIT */
#include "http/client.h"

#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HOST_MAX = 256, PREFIX_MAX = 1024, READ_MAX = 64 << 10 };

struct bt_http_client {
    char host[HOST_MAX + 16]; /* as in the Host header, with the port */
    char prefix[PREFIX_MAX];
    struct addrinfo *addresses;
    int fd;         /* -1: not connected */
    bool used;      /* an answer has come over this connection */
    bool got_bytes; /* of the answer that is being read */
    bool cut_short; /* the answer came before the request was sent whole */
    bt_http_parser parser;
    char in[READ_MAX];
};

/* Splits "host[:port]" into name and service; false when malformed. */
static bool split_host(const char *text, size_t n, char name[HOST_MAX], char service[8])
{
    const char *end = text + n;
    const char *name_end;
    if (n > 0 && text[0] == '[') {
        text++;
        name_end = memchr(text, ']', (size_t)(end - text));
        if (name_end == NULL) {
            return false;
        }
    } else {
        name_end = memchr(text, ':', n);
        name_end = name_end == NULL ? end : name_end;
    }
    size_t n_name = (size_t)(name_end - text);
    const char *rest = name_end + (name_end < end && *name_end == ']');
    if (n_name == 0 || n_name >= HOST_MAX) {
        return false;
    }
    memcpy(name, text, n_name);
    name[n_name] = '\0';
    snprintf(service, 8, "80");
    if (rest == end) {
        return true;
    }
    size_t n_port = (size_t)(end - rest) - 1;
    if (*rest != ':' || n_port == 0 || n_port > 5 || strspn(rest + 1, "0123456789") < n_port) {
        return false;
    }
    memcpy(service, rest + 1, n_port);
    service[n_port] = '\0';
    return true;
}

static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text <= 0x20 || (unsigned char)*text >= 0x7f) {
            return false;
        }
    }
    return true;
}

static bt_status resolve(bt_http_client *client, const char *url, bt_err *err)
{
    const char *at = url;
    if (strncmp(at, "https://", 8) == 0) {
        return bt_fail(err, BT_E_UNSUPPORTED, "%s: TLS is not spoken here, use http://", url);
    }
    at += strncmp(at, "http://", 7) == 0 ? 7 : 0;
    size_t n = strcspn(at, "/");
    char name[HOST_MAX];
    char service[8];
    if (!is_plain(url) || strlen(at + n) >= PREFIX_MAX || !split_host(at, n, name, service)) {
        return bt_fail(err, BT_E_INVALID, "%s: must be http://host:port", url);
    }
    snprintf(client->host, sizeof client->host, strchr(name, ':') != NULL ? "[%s]:%s" : "%s:%s",
             name, service);
    snprintf(client->prefix, sizeof client->prefix, "%s", at + n);
    for (size_t end = strlen(client->prefix); end > 0 && client->prefix[end - 1] == '/'; end--) {
        client->prefix[end - 1] = '\0';
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    int failed = getaddrinfo(name, service, &hints, &client->addresses);
    if (failed != 0) {
        return bt_fail(err, BT_E_INVALID, "%s: %s", client->host, gai_strerror(failed));
    }
    return BT_OK;
}

bt_status bt_http_client_open(const char *url, bt_http_client **out, bt_err *err)
{
    bt_http_client *client = bt_mem_calloc(BT_MEM_HTTP, 1, sizeof *client);
    if (client == NULL) {
        return bt_fail(err, BT_E_NO_MEMORY, "out of memory for an HTTP client");
    }
    client->fd = -1;
    bt_http_parser_init(&client->parser, BT_HTTP_RESPONSE, BT_MEM_HTTP);
    bt_status status = resolve(client, url, err);
    if (status != BT_OK) {
        bt_http_client_close(client);
        return status;
    }
    *out = client;
    return BT_OK;
}

void bt_http_client_hang_up(bt_http_client *client)
{
    if (client->fd >= 0) {
        close(client->fd);
        client->fd = -1;
    }
    client->used = false;
}

void bt_http_client_close(bt_http_client *client)
{
    if (client == NULL) {
        return;
    }
    bt_http_client_hang_up(client);
    if (client->addresses != NULL) {
        freeaddrinfo(client->addresses);
    }
    bt_http_parser_deinit(&client->parser);
    bt_mem_free(client);
}

void bt_http_reply_deinit(bt_http_reply *reply)
{
    bt_buf_deinit(&reply->body);
}

/* Waits until the socket is ready or the deadline has come. */
static bt_status wait_for(bt_http_client *client, int fd, short events, int64_t deadline_ns,
                          bt_err *err)
{
    for (;;) {
        int64_t left = deadline_ns - bt_clock_now_ns();
        if (left <= 0) {
            return bt_fail(err, BT_E_IO, "%s: the time for the call is over", client->host);
        }
        struct pollfd p = {.fd = fd, .events = events};
        int64_t ms = BT_MIN(left / 1000000 + 1, (int64_t)3600000);
        int ready = poll(&p, 1, (int)ms);
        if (ready > 0) {
            return BT_OK;
        }
        if (ready < 0 && errno != EINTR) {
            return bt_fail(err, BT_E_IO, "%s: %s", client->host, strerror(errno));
        }
    }
}

static bt_status connect_one(bt_http_client *client, const struct addrinfo *address,
                             int64_t deadline_ns, bt_err *err)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return bt_fail(err, BT_E_IO, "%s: %s", client->host, strerror(errno));
    }
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int why = connect(fd, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (why == EINPROGRESS) {
        bt_status status = wait_for(client, fd, POLLOUT, deadline_ns, err);
        if (status != BT_OK) {
            close(fd);
            return status;
        }
        socklen_t n = sizeof why;
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &n);
    }
    if (why != 0) {
        close(fd);
        return bt_fail(err, BT_E_IO, "cannot connect to %s: %s", client->host, strerror(why));
    }
    client->fd = fd;
    return BT_OK;
}

static bt_status ensure_connected(bt_http_client *client, int64_t deadline_ns, bt_err *err)
{
    if (client->fd >= 0) {
        /* Anything to read between two answers, an end included, means that it is spent. */
        struct pollfd p = {.fd = client->fd, .events = POLLIN};
        if (poll(&p, 1, 0) == 0) {
            return BT_OK;
        }
        bt_http_client_hang_up(client);
    }
    bt_status status = BT_E_IO;
    for (const struct addrinfo *a = client->addresses; a != NULL && status != BT_OK;
         a = a->ai_next) {
        status = connect_one(client, a, deadline_ns, err);
    }
    return status;
}

static bt_status write_request(bt_http_client *client, const bt_http_call *call, bt_buf *out,
                               bt_err *err)
{
    const char *method = call->method != NULL ? call->method : call->body.n > 0 ? "POST" : "GET";
    if (call->path == NULL || call->path[0] != '/' || !is_plain(call->path) || !is_plain(method)) {
        return bt_fail(err, BT_E_INVALID,
                       "the path of a request must begin with / and hold no blanks");
    }
    bt_buf_printf(out, "%s %s%s HTTP/1.1\r\nHost: %s\r\n", method, client->prefix, call->path,
                  client->host);
    for (size_t i = 0; i < call->n_fields; i++) {
        bt_str value = call->fields[i].value;
        for (size_t j = 0; j < value.n; j++) {
            if ((unsigned char)value.p[j] < 0x20) {
                return bt_fail(err, BT_E_INVALID, "a header value holds a control character");
            }
        }
        bt_buf_push_str(out, call->fields[i].name);
        bt_buf_pushz(out, ": ");
        bt_buf_push_str(out, value);
        bt_buf_pushz(out, "\r\n");
    }
    if (call->body.n > 0 || strcmp(method, "POST") == 0) {
        bt_buf_printf(out, "Content-Type: %s\r\nContent-Length: %zu\r\n",
                      call->content_type != NULL ? call->content_type : "application/json",
                      call->body.n);
    }
    bt_buf_pushz(out, "\r\n");
    bt_buf_push_str(out, call->body);
    if (bt_buf_ok(out) != BT_OK) {
        return bt_fail(err, bt_buf_ok(out), "the request is too large");
    }
    return BT_OK;
}

/* Sends all of it, or stops early where the server answers or closes first: a refusal must be read
 * rather than waited out. */
static bt_status send_all(bt_http_client *client, bt_str bytes, int64_t deadline_ns, bt_err *err)
{
    while (bytes.n > 0) {
        ssize_t sent = send(client->fd, bytes.p, bytes.n, MSG_NOSIGNAL);
        if (sent >= 0) {
            bytes.p += sent;
            bytes.n -= (size_t)sent;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            BT_TRY(wait_for(client, client->fd, POLLOUT | POLLIN, deadline_ns, err));
            struct pollfd p = {.fd = client->fd, .events = POLLIN};
            if (poll(&p, 1, 0) > 0) {
                client->cut_short = true;
                return BT_OK;
            }
        } else if (errno != EINTR) {
            client->cut_short = true;
            return BT_OK;
        }
    }
    return BT_OK;
}

/* One read; *n = 0 at the end of the stream. */
static bt_status receive(bt_http_client *client, int64_t deadline_ns, size_t *n, bt_err *err)
{
    while (bt_clock_now_ns() < deadline_ns) {
        ssize_t got = recv(client->fd, client->in, sizeof client->in, 0);
        if (got >= 0) {
            *n = (size_t)got;
            client->got_bytes = client->got_bytes || got > 0;
            return BT_OK;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            BT_TRY(wait_for(client, client->fd, POLLIN, deadline_ns, err));
        } else if (errno != EINTR) {
            return bt_fail(err, BT_E_IO, "%s: %s", client->host, strerror(errno));
        }
    }
    return bt_fail(err, BT_E_IO, "%s: the time for the call is over", client->host);
}

typedef struct reading {
    const bt_http_call *call;
    bt_http_reply *reply;
    bt_http_sse *sse;
    bool is_head; /* the request was HEAD */
    int64_t deadline_ns;
} reading;

static void take_head(bt_http_client *client, const reading *r)
{
    bt_str type = BT_STR("");
    bt_http_parser_find(&client->parser, "Content-Type", &type);
    int status = client->parser.status;
    r->reply->status = status;
    r->reply->head_ns = bt_clock_now_ns();
    const char *want = "text/event-stream";
    type.n = BT_MIN(type.n, strlen(want));
    r->reply->streamed =
        r->call->event != NULL && status >= 200 && status < 300 && bt_http_name_is(type, want);
    client->parser.no_body = r->is_head;
}

static bt_status take_data(bt_http_client *client, const reading *r, bt_str data, bt_err *err)
{
    bt_status status;
    if (r->reply->streamed) {
        status =
            bt_http_sse_push(r->sse, data, r->call->event, r->call->event_ctx, &r->reply->stopped);
    } else {
        bt_buf_push_str(&r->reply->body, data);
        status = bt_buf_ok(&r->reply->body);
    }
    if (status != BT_OK) {
        return bt_fail(err, status, "%s: the answer is larger than the limit", client->host);
    }
    return BT_OK;
}

/* Handles the bytes of one read. *done when the answer is complete or was stopped. */
static bt_status take_bytes(bt_http_client *client, const reading *r, size_t n, bool *done,
                            bt_err *err)
{
    size_t at = 0;
    for (;;) {
        size_t used;
        bt_str data = {0};
        bt_http_event event =
            bt_http_parser_next(&client->parser, client->in + at, n - at, &used, &data);
        at += used;
        if (event == BT_HTTP_HEAD) {
            take_head(client, r);
        } else if (event == BT_HTTP_DATA) {
            BT_TRY(take_data(client, r, data, err));
            if (r->reply->stopped) {
                *done = true;
                return BT_OK;
            }
        } else if (event == BT_HTTP_DONE) {
            if (client->parser.status >= 200) {
                *done = true;
                return BT_OK;
            }
            bt_http_parser_reset(&client->parser); /* an interim answer */
        } else if (event == BT_HTTP_BAD) {
            return bt_fail(err, BT_E_FORMAT, "%s: %s", client->host, client->parser.bad_why);
        } else {
            return BT_OK;
        }
    }
}

static bt_status read_answer(bt_http_client *client, const reading *r, bt_err *err)
{
    bt_http_parser_reset(&client->parser);
    bool done = false;
    while (!done) {
        size_t n = 0;
        BT_TRY(receive(client, r->deadline_ns, &n, err));
        if (n > 0) {
            BT_TRY(take_bytes(client, r, n, &done, err));
        } else if (bt_http_parser_eof(&client->parser) == BT_HTTP_DONE) {
            done = true;
        } else {
            return bt_fail(err, BT_E_IO, "%s broke off before the answer was complete",
                           client->host);
        }
    }
    r->reply->done_ns = bt_clock_now_ns();
    client->used = true;
    if (r->reply->stopped || client->cut_short || !client->parser.keep_alive) {
        bt_http_client_hang_up(client);
    }
    return BT_OK;
}

/* One attempt. *again: a kept connection turned out to be closed; nothing was answered. */
static bt_status attempt(bt_http_client *client, const reading *r, bt_str request, bool *again,
                         bt_err *err)
{
    BT_TRY(ensure_connected(client, r->deadline_ns, err));
    bool reused = client->used;
    client->got_bytes = client->cut_short = false;
    bt_status status = send_all(client, request, r->deadline_ns, err);
    if (status == BT_OK) {
        r->reply->sent_ns = bt_clock_now_ns();
        status = read_answer(client, r, err);
    }
    if (status != BT_OK) {
        bt_http_client_hang_up(client);
        *again = reused && !client->got_bytes && bt_clock_now_ns() < r->deadline_ns;
    }
    return status;
}

bt_status bt_http_client_call(bt_http_client *client, const bt_http_call *call,
                              bt_http_reply *reply, bt_err *err)
{
    int64_t timeout_ns = call->timeout_ns > 0 ? call->timeout_ns : 300 * BT_NS_PER_S;
    timeout_ns = BT_MIN(timeout_ns, 8640000 * BT_NS_PER_S); /* the sum with the clock must fit */
    size_t answer_max = call->answer_max > 0 ? call->answer_max : (size_t)64 << 20;
    bt_http_reply filled = {0};
    bt_http_sse sse;
    bt_buf request;
    bt_buf_init(&filled.body, BT_MEM_HTTP, answer_max);
    bt_buf_init(&request, BT_MEM_HTTP, (size_t)1 << 32);
    bt_http_sse_init(&sse, answer_max);
    reading r = {.call = call,
                 .reply = &filled,
                 .sse = &sse,
                 .is_head = call->method != NULL && strcmp(call->method, "HEAD") == 0,
                 .deadline_ns = bt_clock_now_ns() + timeout_ns};
    bt_status status = write_request(client, call, &request, err);
    if (status == BT_OK) {
        bool again = false;
        status = attempt(client, &r, bt_buf_str(&request), &again, err);
        if (again) {
            status = attempt(client, &r, bt_buf_str(&request), &again, err);
        }
    }
    bt_buf_deinit(&request);
    bt_http_sse_deinit(&sse);
    if (status != BT_OK) {
        bt_http_reply_deinit(&filled);
        return status;
    }
    *reply = filled;
    return BT_OK;
}
