/* SPDX-License-Identifier: MIT
 *
 * methods.c: methods of strings, dicts, lists and loops. Those that would change their owner are
 * known but refused when called, as in Jinja2's immutable sandbox. */
#include "jinja/builtin.h"

#include "jinja/textops.h"
#include "text/casemap.h"
#include "text/utf8.h"

/* The text of an argument that must be a string; NULL when it was not given or is none. */
static bt_status text_arg(bt_jctx *ctx, bt_jvalue arg, const bt_jtext **out)
{
    *out = NULL;
    if (arg.kind == BT_JVAL_STR) {
        *out = arg.as.text;
        return BT_OK;
    }
    if (arg.kind == BT_JVAL_UNSET || arg.kind == BT_JVAL_NONE) {
        return BT_OK;
    }
    return bt_jctx_fail(ctx, BT_E_FORMAT, "an argument must be a string, not %s",
                        bt_jvalue_type(arg));
}

static bt_status needed_text(bt_jctx *ctx, bt_jvalue arg, const bt_jtext **out)
{
    BT_TRY(text_arg(ctx, arg, out));
    return *out != NULL ? BT_OK
                        : bt_jctx_fail(ctx, BT_E_FORMAT, "an argument must be a string, not %s",
                                       bt_jvalue_type(arg));
}

static bt_status int_arg(bt_jctx *ctx, bt_jvalue arg, int64_t missing, int64_t *out)
{
    *out = missing;
    if (arg.kind == BT_JVAL_UNSET || bt_jvalue_as_int(arg, out)) {
        return BT_OK;
    }
    return bt_jctx_fail(ctx, BT_E_FORMAT, "an argument must be an integer, not %s",
                        bt_jvalue_type(arg));
}

static bt_status strip(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, int sides,
                       bt_jvalue *out)
{
    const bt_jtext *chars;
    bt_jtext t;
    BT_TRY(text_arg(ctx, args[0], &chars));
    BT_TRY(bt_jtextop_strip(ctx, self.as.text, chars, (sides & 1) != 0, (sides & 2) != 0, &t));
    return bt_jtextop_value(ctx, &t, out);
}

static bt_status str_strip(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    return strip(ctx, self, args, 3, out);
}

static bt_status str_lstrip(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    return strip(ctx, self, args, 1, out);
}

static bt_status str_rstrip(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    return strip(ctx, self, args, 2, out);
}

static bt_status split(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bool from_end,
                       bt_jvalue *out)
{
    bt_jsplit how = {.from_end = from_end};
    bt_jlist *list;
    BT_TRY(text_arg(ctx, args[0], &how.separator));
    BT_TRY(int_arg(ctx, args[1], -1, &how.max));
    BT_TRY(bt_jtextop_split(ctx, self.as.text, &how, &list));
    *out = bt_jvalue_list(list);
    return BT_OK;
}

static bt_status str_split(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    return split(ctx, self, args, false, out);
}

static bt_status str_rsplit(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    return split(ctx, self, args, true, out);
}

static bt_status str_splitlines(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    bt_jlist *list;
    BT_TRY(bt_jtextop_lines(ctx, self.as.text, bt_jvalue_truth(args[0]), &list));
    *out = bt_jvalue_list(list);
    return BT_OK;
}

static bool affix_holds(bt_str text, bt_str affix, bool at_start)
{
    return at_start ? bt_str_starts(text, affix) : bt_str_ends(text, affix);
}

/* One string, or a tuple of them. */
static bt_status has_affix(bt_jctx *ctx, bt_jvalue self, bt_jvalue arg, bool at_start,
                           bt_jvalue *out)
{
    const bt_jtext *t;
    bt_str text = bt_jvalue_bytes(self);
    if (arg.kind != BT_JVAL_LIST || arg.as.list->kind != BT_JLIST_TUPLE) {
        BT_TRY(needed_text(ctx, arg, &t));
        *out = bt_jvalue_bool(affix_holds(text, bt_jtext_bytes(t), at_start));
        return BT_OK;
    }
    bool holds = false;
    for (size_t i = 0; i < arg.as.list->n && !holds; i++) {
        BT_TRY(needed_text(ctx, arg.as.list->items[i], &t));
        holds = affix_holds(text, bt_jtext_bytes(t), at_start);
    }
    *out = bt_jvalue_bool(holds);
    return BT_OK;
}

static bt_status str_startswith(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    return has_affix(ctx, self, args[0], true, out);
}

static bt_status str_endswith(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    return has_affix(ctx, self, args[0], false, out);
}

static bt_status remove_affix(bt_jctx *ctx, bt_jvalue self, bt_jvalue arg, bool at_start,
                              bt_jvalue *out)
{
    const bt_jtext *affix;
    bt_jtext t = *self.as.text;
    BT_TRY(needed_text(ctx, arg, &affix));
    if (affix_holds(bt_jtext_bytes(&t), bt_jtext_bytes(affix), at_start)) {
        size_t from = at_start ? affix->n : 0;
        BT_TRY(bt_jtext_cut(ctx, self.as.text, from, from + t.n - affix->n, &t));
    }
    return bt_jtextop_value(ctx, &t, out);
}

static bt_status str_removeprefix(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args,
                                  bt_jvalue *out)
{
    return remove_affix(ctx, self, args[0], true, out);
}

static bt_status str_removesuffix(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args,
                                  bt_jvalue *out)
{
    return remove_affix(ctx, self, args[0], false, out);
}

static bt_status str_replace(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    const bt_jtext *old;
    const bt_jtext *fresh;
    int64_t max;
    bt_jtext t;
    BT_TRY(needed_text(ctx, args[0], &old));
    BT_TRY(needed_text(ctx, args[1], &fresh));
    BT_TRY(int_arg(ctx, args[2], -1, &max));
    BT_TRY(bt_jtextop_replace(ctx, self.as.text, old, fresh, max, &t));
    return bt_jtextop_value(ctx, &t, out);
}

static bt_status change_case(bt_jctx *ctx, bt_jvalue self, bt_jcase how, bt_jvalue *out)
{
    bt_jtext t;
    BT_TRY(bt_jtextop_case(ctx, self.as.text, how, &t));
    return bt_jtextop_value(ctx, &t, out);
}

static bt_status str_upper(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    return change_case(ctx, self, BT_JCASE_UPPER, out);
}

static bt_status str_lower(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    return change_case(ctx, self, BT_JCASE_LOWER, out);
}

static bt_status str_title(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    return change_case(ctx, self, BT_JCASE_TITLE, out);
}

static bt_status str_capitalize(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    return change_case(ctx, self, BT_JCASE_CAPITALIZE, out);
}

static bt_status str_swapcase(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    return change_case(ctx, self, BT_JCASE_SWAP, out);
}

/* Index in code points of the first (last) occurrence, -1 when there is none. */
static bt_status find(bt_jctx *ctx, bt_jvalue self, bt_jvalue arg, bool last, int64_t *out)
{
    const bt_jtext *needle;
    const bt_jtext *t = self.as.text;
    BT_TRY(needed_text(ctx, arg, &needle));
    BT_TRY(bt_jctx_charge(ctx, t->n));
    int64_t hit = bt_str_find(bt_jtext_bytes(t), bt_jtext_bytes(needle), 0);
    if (last && needle->n <= t->n) {
        BT_TRY(bt_jctx_charge_product(ctx, t->n, needle->n));
        size_t i = t->n - needle->n;
        hit = -1;
        for (;; i--) {
            if (bt_str_eq((bt_str){t->p + i, needle->n}, bt_jtext_bytes(needle))) {
                hit = (int64_t)i;
                break;
            }
            if (i == 0) {
                break;
            }
        }
    }
    const bt_jtext before = {.p = t->p, .n = hit < 0 ? 0 : (size_t)hit};
    *out = hit < 0 ? -1 : (int64_t)bt_jtext_count(&before);
    return BT_OK;
}

static bt_status str_find(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    out->kind = BT_JVAL_INT;
    return find(ctx, self, args[0], false, &out->as.i);
}

static bt_status str_rfind(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    out->kind = BT_JVAL_INT;
    return find(ctx, self, args[0], true, &out->as.i);
}

static bt_status str_index(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    out->kind = BT_JVAL_INT;
    BT_TRY(find(ctx, self, args[0], false, &out->as.i));
    return out->as.i >= 0 ? BT_OK : bt_jctx_fail(ctx, BT_E_FORMAT, "substring not found");
}

static bt_status str_count(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    const bt_jtext *needle;
    const bt_jtext *t = self.as.text;
    int64_t n = 0;
    BT_TRY(needed_text(ctx, args[0], &needle));
    BT_TRY(bt_jctx_charge(ctx, t->n));
    if (needle->n == 0) {
        *out = bt_jvalue_int((int64_t)bt_jtext_count(t) + 1);
        return BT_OK;
    }
    int64_t hit = bt_str_find(bt_jtext_bytes(t), bt_jtext_bytes(needle), 0);
    while (hit >= 0) {
        n++;
        hit = bt_str_find(bt_jtext_bytes(t), bt_jtext_bytes(needle), (size_t)hit + needle->n);
    }
    *out = bt_jvalue_int(n);
    return BT_OK;
}

static bt_status str_join(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    const bt_jlist *items;
    bt_jtext t = {.p = ""};
    BT_TRY(bt_jvalue_items(ctx, args[0], &items));
    for (size_t i = 0; i < items->n; i++) {
        const bt_jtext *piece;
        BT_TRY(needed_text(ctx, items->items[i], &piece));
        if (i > 0) {
            BT_TRY(bt_jtext_append(ctx, &t, self.as.text));
        }
        BT_TRY(bt_jtext_append(ctx, &t, piece));
    }
    return bt_jtextop_value(ctx, &t, out);
}

/* Whether the text is not empty and all its characters are of a class. */
static bt_jvalue all_chars(bt_jvalue self, bool (*is)(uint32_t))
{
    bt_str s = bt_jvalue_bytes(self);
    bool all = s.n > 0;
    for (size_t i = 0; i < s.n && all;) {
        uint32_t c = 0;
        i += (size_t)bt_utf8_decode(s.p + i, s.n - i, &c);
        all = is(c);
    }
    return bt_jvalue_bool(all);
}

static bool is_digit(uint32_t c)
{
    return bt_case_is_alnum(c) && !bt_case_is_alpha(c);
}

static bt_status str_isdigit(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    *out = all_chars(self, is_digit);
    return bt_jctx_charge(ctx, self.as.text->n);
}

static bt_status str_isalpha(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    *out = all_chars(self, bt_case_is_alpha);
    return bt_jctx_charge(ctx, self.as.text->n);
}

static bt_status str_isalnum(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    *out = all_chars(self, bt_case_is_alnum);
    return bt_jctx_charge(ctx, self.as.text->n);
}

static bt_status str_isspace(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    *out = all_chars(self, bt_case_is_space);
    return bt_jctx_charge(ctx, self.as.text->n);
}

static bt_status dict_get(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    BT_TRY(bt_jdict_get(ctx, self.as.dict, args[0], out));
    if (out->kind == BT_JVAL_UNSET) {
        *out = args[1].kind == BT_JVAL_UNSET ? bt_jvalue_none() : args[1];
    }
    return BT_OK;
}

static bt_status view(bt_jctx *ctx, bt_jvalue self, bt_jlist_kind kind, bt_jvalue *out)
{
    bt_jlist *list;
    BT_TRY(bt_jdict_view(ctx, self.as.dict, kind, &list));
    *out = bt_jvalue_list(list);
    return BT_OK;
}

static bt_status dict_items(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    return view(ctx, self, BT_JLIST_ITEMS, out);
}

static bt_status dict_keys(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    return view(ctx, self, BT_JLIST_KEYS, out);
}

static bt_status dict_values(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    return view(ctx, self, BT_JLIST_VALUES, out);
}

static bt_status copy(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    (void)args;
    *out = self; /* nothing can change it */
    return bt_jctx_charge(ctx, 0);
}

static bt_status list_index(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    for (size_t i = 0; i < self.as.list->n; i++) {
        bool same;
        BT_TRY(bt_jvalue_equal(ctx, self.as.list->items[i], args[0], &same));
        if (same) {
            *out = bt_jvalue_int((int64_t)i);
            return BT_OK;
        }
    }
    return bt_jctx_fail(ctx, BT_E_FORMAT, "the value is not in the list");
}

static bt_status list_count(bt_jctx *ctx, bt_jvalue self, const bt_jvalue *args, bt_jvalue *out)
{
    int64_t n = 0;
    for (size_t i = 0; i < self.as.list->n; i++) {
        bool same;
        BT_TRY(bt_jvalue_equal(ctx, self.as.list->items[i], args[0], &same));
        n += same;
    }
    *out = bt_jvalue_int(n);
    return BT_OK;
}

static bt_status refuse_change(bt_jctx *ctx, bt_jvalue self, const bt_jcall *call, bt_jvalue *out)
{
    (void)call;
    (void)out;
    return bt_jctx_fail(ctx, BT_E_FORMAT, "a template must not change a %s", bt_jvalue_type(self));
}

static bt_status loop_cycle(bt_jctx *ctx, bt_jvalue self, const bt_jcall *call, bt_jvalue *out)
{
    if (call->n_pos == 0) {
        return bt_jctx_fail(ctx, BT_E_FORMAT, "no items for cycling given");
    }
    *out = call->pos[self.as.loop->idx % (size_t)call->n_pos];
    return BT_OK;
}

static bt_status loop_changed(bt_jctx *ctx, bt_jvalue self, const bt_jcall *call, bt_jvalue *out)
{
    bt_jloop *loop = self.as.loop;
    bt_jlist *now;
    bool same = false;
    BT_TRY(bt_jvalue_new_list(ctx, BT_JLIST_TUPLE, (size_t)call->n_pos, &now));
    for (int i = 0; i < call->n_pos; i++) {
        now->items[i] = call->pos[i];
    }
    if (loop->changed.kind != BT_JVAL_UNSET) {
        BT_TRY(bt_jvalue_equal(ctx, loop->changed, bt_jvalue_list(now), &same));
    }
    loop->changed = bt_jvalue_list(now);
    *out = bt_jvalue_bool(!same);
    return BT_OK;
}

static const bt_jbuiltin string_methods[] = {
    {"strip", str_strip, "chars", 0, NULL},
    {"lstrip", str_lstrip, "chars", 0, NULL},
    {"rstrip", str_rstrip, "chars", 0, NULL},
    {"split", str_split, "sep,maxsplit", 0, NULL},
    {"rsplit", str_rsplit, "sep,maxsplit", 0, NULL},
    {"splitlines", str_splitlines, "keepends", 0, NULL},
    {"startswith", str_startswith, "prefix", 1, NULL},
    {"endswith", str_endswith, "suffix", 1, NULL},
    {"removeprefix", str_removeprefix, "prefix", 1, NULL},
    {"removesuffix", str_removesuffix, "suffix", 1, NULL},
    {"replace", str_replace, "old,new,count", 2, NULL},
    {"upper", str_upper, "", 0, NULL},
    {"lower", str_lower, "", 0, NULL},
    {"title", str_title, "", 0, NULL},
    {"capitalize", str_capitalize, "", 0, NULL},
    {"swapcase", str_swapcase, "", 0, NULL},
    {"find", str_find, "sub", 1, NULL},
    {"rfind", str_rfind, "sub", 1, NULL},
    {"index", str_index, "sub", 1, NULL},
    {"count", str_count, "sub", 1, NULL},
    {"join", str_join, "iterable", 1, NULL},
    {"isdigit", str_isdigit, "", 0, NULL},
    {"isalpha", str_isalpha, "", 0, NULL},
    {"isalnum", str_isalnum, "", 0, NULL},
    {"isspace", str_isspace, "", 0, NULL},
};

static const bt_jbuiltin dict_methods[] = {
    {"get", dict_get, "key,default", 1, NULL},
    {"items", dict_items, "", 0, NULL},
    {"keys", dict_keys, "", 0, NULL},
    {"values", dict_values, "", 0, NULL},
    {"copy", copy, "", 0, NULL},
    {"pop", NULL, "", 0, refuse_change},
    {"popitem", NULL, "", 0, refuse_change},
    {"update", NULL, "", 0, refuse_change},
    {"setdefault", NULL, "", 0, refuse_change},
    {"clear", NULL, "", 0, refuse_change},
};

static const bt_jbuiltin list_methods[] = {
    {"index", list_index, "value", 1, NULL},
    {"count", list_count, "value", 1, NULL},
    {"copy", copy, "", 0, NULL},
    {"append", NULL, "", 0, refuse_change},
    {"extend", NULL, "", 0, refuse_change},
    {"insert", NULL, "", 0, refuse_change},
    {"remove", NULL, "", 0, refuse_change},
    {"pop", NULL, "", 0, refuse_change},
    {"sort", NULL, "", 0, refuse_change},
    {"reverse", NULL, "", 0, refuse_change},
    {"clear", NULL, "", 0, refuse_change},
};

static const bt_jbuiltin loop_methods[] = {
    {"cycle", NULL, "", 0, loop_cycle},
    {"changed", NULL, "", 0, loop_changed},
};

const bt_jbuiltin *bt_jbuiltin_method(bt_jval_kind kind, bt_str name)
{
    switch (kind) {
    case BT_JVAL_STR:
        return bt_jbuiltin_find(string_methods, BT_COUNT(string_methods), name);
    case BT_JVAL_DICT:
        return bt_jbuiltin_find(dict_methods, BT_COUNT(dict_methods), name);
    case BT_JVAL_LIST:
        return bt_jbuiltin_find(list_methods, BT_COUNT(list_methods), name);
    case BT_JVAL_LOOP:
        return bt_jbuiltin_find(loop_methods, BT_COUNT(loop_methods), name);
    default:
        return NULL;
    }
}

bool bt_jbuiltin_is_method(bt_str name)
{
    static const bt_jval_kind owners[] = {BT_JVAL_STR, BT_JVAL_DICT, BT_JVAL_LIST, BT_JVAL_LOOP};
    for (size_t i = 0; i < BT_COUNT(owners); i++) {
        if (bt_jbuiltin_method(owners[i], name) != NULL) {
            return true;
        }
    }
    return false;
}
