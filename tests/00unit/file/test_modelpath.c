/* SPDX-License-Identifier: MIT
 *
 * Goal: names after --model lead to the right path, and a hostile name or cache leads nowhere.
 * Method: a cache laid out as the hub's library does, in a temporary directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "file/modelpath.h"
#include "filemaker.h"

static void expect(const char *name, const char *cache, const char *want)
{
    char *path = NULL;
    bt_err err;
    if (bt_modelpath_resolve(name, cache, &path, &err) != BT_OK) {
        fail_msg("%s: %s", name, err.message);
    }
    assert_string_equal(path, want);
    bt_mem_free(path);
}

static void refuse(const char *name, const char *cache, const char *word)
{
    char *path = NULL;
    bt_err err;
    assert_true(bt_modelpath_resolve(name, cache, &path, &err) != BT_OK);
    assert_null(path);
    if (strstr(err.message, word) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", err.message, word);
    }
}

static void directories_and_files(void **state)
{
    (void)state;
    maker m;
    maker_init(&m);
    refuse(m.dir, NULL, "config.json");
    maker_write(&m, "x.gguf", BT_STR("GGUF"));
    char want[MAKER_PATH_MAX];
    strcpy(want, maker_path(&m, "x.gguf"));
    expect(m.dir, NULL, want);
    expect(want, NULL, want);
    maker_write(&m, "y.gguf", BT_STR("GGUF"));
    refuse(m.dir, NULL, ".gguf");
    maker_write(&m, "config.json", BT_STR("{}"));
    expect(m.dir, NULL, m.dir);
    refuse(maker_path(&m, "config.json"), NULL, "config.json");
    refuse("", NULL, "empty");
    maker_deinit(&m);
}

static void the_cache_is_followed(void **state)
{
    (void)state;
    maker m;
    maker_init(&m);
    refuse("org/name", m.dir, "huggingface-cli download org/name");
    refuse("org/name", NULL, "huggingface-cli download org/name");
    maker_mkdir(&m, "models--org--name");
    maker_mkdir(&m, "models--org--name/snapshots");
    maker_mkdir(&m, "models--org--name/snapshots/abc");
    maker_mkdir(&m, "models--org--name/snapshots/def");
    maker_write(&m, "models--org--name/snapshots/abc/config.json", BT_STR("{}"));
    maker_write(&m, "models--org--name/snapshots/def/config.json", BT_STR("{}"));
    refuse("org/name", m.dir, "huggingface-cli download org/name"); /* two, and no ref */
    maker_mkdir(&m, "models--org--name/refs");
    maker_write(&m, "models--org--name/refs/main", BT_STR("def\n"));
    char want[MAKER_PATH_MAX];
    strcpy(want, maker_path(&m, "models--org--name/snapshots/def"));
    expect("org/name", m.dir, want);
    maker_write(&m, "models--org--name/refs/main", BT_STR("../../.."));
    refuse("org/name", m.dir, "org/name");
    maker_deinit(&m);
}

static void hostile_names_lead_nowhere(void **state)
{
    (void)state;
    maker m;
    maker_init(&m);
    static const char *const names[] = {"../etc", "org/..",   "../..",   "org/name/x", "/org/name",
                                        "org//n", "org/",     "/",       "org/na me",  "o\nrg/name",
                                        "./x",    "org/.git", "nothing", "org/a\\b"};
    char inner[MAKER_PATH_MAX];
    strcpy(inner, maker_path(&m, "cache"));
    /* Relative names must not find what happens to lie beside the build folder. */
    char before[MAKER_PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    maker_mkdir(&m, "a");
    maker_mkdir(&m, "a/b");
    assert_int_equal(chdir(maker_path(&m, "a/b")), 0);
    for (size_t i = 0; i < BT_COUNT(names); i++) {
        bt_err err;
        char *path = NULL;
        bt_status status = bt_modelpath_resolve(names[i], inner, &path, &err);
        bool exists = access(names[i], F_OK) == 0; /* "/" and "../.." are directories */
        assert_true(status == BT_E_NOT_FOUND || (exists && status != BT_OK));
        assert_null(strstr(err.message, "huggingface-cli"));
    }
    assert_int_equal(chdir(before), 0);
    maker_deinit(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directories_and_files),
        cmocka_unit_test(the_cache_is_followed),
        cmocka_unit_test(hostile_names_lead_nowhere),
    };
    return cmocka_run_group_tests_name("file/modelpath", tests, NULL, NULL);
}
