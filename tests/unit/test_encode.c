/* Encoders: what is written, and that whoever reads it finds the text again: a shell, sbatch's rules, Slurm's file name patterns, Kubernetes, YAML, JSON. Control characters are refused. */
#include "config.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/encode.h"
#include "common/yaml.h"

typedef int (*encode_fn)(struct zep_buf *b, const char *s, struct zep_error *err);

/* Texts that another language may take for its own; all arrive unharmed. */
static const char *const texts[] = {
    "plain", "", " ", "  two  blanks ", "it's", "'", "''", "\"", "a\"b\"c", "\\", "a\\b\\", "\\n", "$HOME", "${HOME}", "$(touch pwned)", "`touch pwned`", "$$", "$", "a$", "%", "50%", "%j %A %%", "%%", "#", "a #b", "#SBATCH --x", "a;b&c|d>e<f",
    "*?[a-z]{b,c}", "~", "~/x", "-x", "--option=value", "!", "!!", "a=b,c:d", "(x)", "größe", "日本語", "\xf0\x9f\x9a\x80", "null", "~", "true", "12", "1e5", "0x10", "- a", "a: b", "{a}", "[a]", "&a", "*a", "|", ">", "@a", "? a", "a:", ":a", ", a", "\\$(x)\\'\"", "é#'\"`$\\%",
};
#define N_TEXT (sizeof texts / sizeof texts[0])

static const struct {
    encode_fn encode;
    const char *text, *want; /* NULL: refused */
} cases[] = {
    {zep_encode_shell, "plain/path-1.0_a:b=c,d@e%f+g", "plain/path-1.0_a:b=c,d@e%f+g"},
    {zep_encode_shell, "two words", "'two words'"},
    {zep_encode_shell, "it's", "'it'\\''s'"},
    {zep_encode_shell, "$(rm -rf)", "'$(rm -rf)'"},
    {zep_encode_shell, "~", "'~'"},
    {zep_encode_shell, "größe", "'größe'"},
    {zep_encode_shell, "", "''"},
    {zep_encode_sbatch, "gpu", "gpu"},
    {zep_encode_sbatch, "zep[0-3],x", "zep[0-3],x"},
    {zep_encode_sbatch, "", "\"\""},
    {zep_encode_sbatch, "it's a \"b\" #c\\d $(e)", "\"it's a \\\"b\\\" #c\\\\d $(e)\""},
    {zep_encode_sbatch, "50% %j größe", "\"50% %j größe\""},
    {zep_encode_slurm_path, "/a/50%/%j x", "/a/50%%/%%j x"},
    {zep_encode_slurm_path, "a\\b", NULL},
    {zep_encode_pod_text, "$(HOME) $x $$", "$$(HOME) $$x $$$$"},
    {zep_encode_pod_text, "a\nb\tc", "a\nb\tc"},
    {zep_encode_pod_text, "a\rb", NULL},
    {zep_encode_xml, "a<b>&\"c\"'", "a&lt;b&gt;&amp;&quot;c&quot;&#39;"},
    {zep_encode_xml, "größe\xff", "größe\xef\xbf\xbd"},
};

START_TEST(what_is_written)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zep_buf b = ZEP_BUF_INIT;
        int rc = cases[i].encode(&b, cases[i].text, NULL);

        ck_assert_msg((rc == ZEP_OK) == (cases[i].want != NULL), "case %zu, '%s'", i, cases[i].text);
        if (rc == ZEP_OK)
            ck_assert_str_eq(b.data, cases[i].want);
        zep_buf_free(&b);
    }
}
END_TEST

START_TEST(control_characters)
{
    static const encode_fn all[] = {zep_encode_shell, zep_encode_sbatch, zep_encode_slurm_path, zep_encode_pod_text, zep_encode_xml};

    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        for (int c = 1; c < 128; c++) {
            char text[] = {'a', (char)c, 'b', '\0'};
            struct zep_buf b = ZEP_BUF_INIT;
            struct zep_error err = {0};
            int lines = all[k] == zep_encode_pod_text && (c == '\n' || c == '\t'), refused = (c < 32 && !lines) || c == 127 || (c == '\\' && all[k] == zep_encode_slurm_path);

            ck_assert_msg((all[k](&b, text, &err) < 0) == refused, "encoder %zu, 0x%02x", k, c);
            if (refused && c != '\\') {
                char want[40];

                snprintf(want, sizeof want, "control character 0x%02x at byte 2", c);
                ck_assert_msg(err.code == ZEP_EINVAL && !strncmp(err.text, want, strlen(want)), "%s", err.text);
            }
            zep_buf_free(&b);
        }
}
END_TEST

/* One shell reads all words. */
START_TEST(a_shell)
{
    struct zep_buf command = ZEP_BUF_INIT;
    char got[8192];
    size_t n, at = 0;
    FILE *f;

    zep_buf_puts(&command, "printf '%s\\0'");
    for (size_t i = 0; i < N_TEXT; i++) {
        zep_buf_puts(&command, " ");
        ck_assert_int_eq(zep_encode_shell(&command, texts[i], NULL), ZEP_OK);
    }
    ck_assert_ptr_nonnull(f = popen(command.data, "r"));
    n = fread(got, 1, sizeof got - 1, f);
    ck_assert_int_eq(pclose(f), 0);
    got[n] = '\0';
    for (size_t i = 0; i < N_TEXT; i++) {
        ck_assert_msg(at < n && !strcmp(got + at, texts[i]), "'%s' came back as '%s'", texts[i], got + at);
        at += strlen(got + at) + 1;
    }
    ck_assert_uint_eq(at, n);
    zep_buf_free(&command);
}
END_TEST

/* The first argument of a line, as sbatch 22.05 takes it from #SBATCH lines (src/sbatch/opt.c, _get_argument): a backslash takes the next character, inside quotes of both kinds too; quotes quote; outside
 * them a blank ends the argument, even behind a backslash, and # comments. */
static void read_sbatch(const char *line, char *out)
{
    char quote = '\0';

    for (; *line; line++) {
        int escaped = *line == '\\' && line[1];

        line += escaped;
        if (!quote && (*line == ' ' || *line == '\t' || (*line == '#' && !escaped)))
            break;
        if (!escaped && quote && *line == quote)
            quote = '\0';
        else if (!escaped && !quote && (*line == '\'' || *line == '"'))
            quote = *line;
        else
            *out++ = *line;
    }
    *out = '\0';
}

START_TEST(slurm)
{
    for (size_t i = 0; i < N_TEXT; i++) {
        struct zep_buf b = ZEP_BUF_INIT;
        char got[300], want[300];

        zep_buf_puts(&b, "--job-name=");
        ck_assert_int_eq(zep_encode_sbatch(&b, texts[i], NULL), ZEP_OK);
        read_sbatch(b.data, got);
        snprintf(want, sizeof want, "--job-name=%s", texts[i]);
        ck_assert_str_eq(got, want);
        zep_buf_free(&b);
        if (strchr(texts[i], '\\'))
            continue;
        zep_buf_puts(&b, "");
        ck_assert_int_eq(zep_encode_slurm_path(&b, texts[i], NULL), ZEP_OK);
        for (char *p = b.data; p && *p; p++) /* Slurm's own reading: %% is %, and no other pattern is left */
            if (*p == '%') {
                ck_assert_msg(p[1] == '%', "'%s'", b.data);
                memmove(p, p + 1, strlen(p));
            }
        ck_assert_str_eq(b.data ? b.data : "", texts[i]);
        zep_buf_free(&b);
    }
}
END_TEST

START_TEST(pods)
{
    for (size_t i = 0; i < N_TEXT; i++) {
        struct zep_buf b = ZEP_BUF_INIT;

        ck_assert_int_eq(zep_encode_pod_text(&b, texts[i], NULL), ZEP_OK);
        for (char *p = b.data; p && *p; p++) /* Kubernetes' reading: $$ is $, $(NAME) a variable */
            if (*p == '$') {
                ck_assert_msg(p[1] == '$', "'%s'", b.data);
                memmove(p, p + 1, strlen(p));
            }
        ck_assert_str_eq(b.data ? b.data : "", texts[i]);
        zep_buf_free(&b);
    }
}
END_TEST

/* As a value, as a key, and in a flow map; as a text, not as a number or null. */
START_TEST(yaml)
{
    static const char *const more[] = {"a\nb", "a\tb", "\x01", "a\x7f", "\n", "a\r\n", "\xc2\x85", "\xc2\x9f", "\xef\xbb\xbf", "\xe2\x80\xa8", "\xc2\xa0"};

    for (size_t i = 0; i < N_TEXT + sizeof more / sizeof more[0]; i++) {
        const char *text = i < N_TEXT ? texts[i] : more[i - N_TEXT];
        struct zep_buf b = ZEP_BUF_INIT;
        struct zep_yaml *doc = NULL;
        struct zep_error err = {0};
        const struct zep_yaml_node *root;

        zep_yaml_emit_scalar(&b, text);
        zep_buf_puts(&b, ": {x: ");
        zep_yaml_emit_scalar(&b, text);
        zep_buf_puts(&b, ", y: [");
        zep_yaml_emit_scalar(&b, text);
        zep_buf_puts(&b, "]} # a comment\n");
        ck_assert_msg(zep_yaml_load("f", b.data, b.len, &doc, &err) == ZEP_OK, "'%s': %s", b.data, err.text);
        root = zep_yaml_root(doc);
        ck_assert_int_eq(root->n, 1);
        ck_assert_str_eq(root->keys[0], text);
        ck_assert_str_eq(zep_yaml_get(root->child[0], "x")->scalar, text);
        ck_assert(!zep_yaml_is_null(zep_yaml_get(root->child[0], "x")));
        ck_assert_str_eq(zep_yaml_get(root->child[0], "y")->child[0]->scalar, text);
        zep_yaml_free(doc);
        zep_buf_free(&b);
    }
}
END_TEST

/* JSON is jansson's; what is no UTF-8 is refused by it, and found before by zep_text_is_clean. */
START_TEST(json)
{
    static const char *const bad[] = {"\xff", "a\xc3", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xc0\xaf", "a\nb", "\x7f", "\xc2\x85", "\xef\xbb\xbf", "\xef\xbf\xbe", "\xe2\x80\xa8"};

    for (size_t i = 0; i < N_TEXT; i++) {
        json_t *j = json_pack("{s:s}", "x", texts[i]), *back;
        char *text = json_dumps(j, 0);

        ck_assert_int_eq(zep_text_is_clean(texts[i]), 1);
        ck_assert_ptr_nonnull(text);
        ck_assert_ptr_nonnull(back = json_loads(text, 0, NULL));
        ck_assert_str_eq(json_string_value(json_object_get(back, "x")), texts[i]);
        json_decref(back);
        json_decref(j);
        free(text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char copy[16];

        ck_assert_msg(!zep_text_is_clean(bad[i]), "case %zu", i);
        snprintf(copy, sizeof copy, "%s", bad[i]);
        zep_text_clean(copy);
        ck_assert(zep_text_is_clean(copy) && strchr(copy, '?'));
    }
}
END_TEST

START_TEST(host_names)
{
    static const char *const good[] = {"node-1.site", "a", "10.0.0.1", "n_1", "A.b-C"}, *const bad[] = {"", "-oProxyCommand=x", "a b", "a\nb", "a;b", "$(x)", "größe", "a/b", "a@b", "a:b", "[a]", "a,b", "a%b", "'a'"};
    char long_name[300];

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        ck_assert_msg(zep_check_hostname(good[i], NULL) == ZEP_OK, "'%s'", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(zep_check_hostname(bad[i], NULL) == ZEP_EINVAL, "'%s'", bad[i]);
    memset(long_name, 'a', sizeof long_name);
    long_name[253] = '\0';
    ck_assert_int_eq(zep_check_hostname(long_name, NULL), ZEP_OK);
    long_name[253] = 'a';
    long_name[254] = '\0';
    ck_assert_int_eq(zep_check_hostname(long_name, NULL), ZEP_EINVAL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("encoders");
    TCase *t = tcase_create("encoders");
    SRunner *run;
    int failed;

    tcase_add_test(t, what_is_written);
    tcase_add_test(t, control_characters);
    tcase_add_test(t, a_shell);
    tcase_add_test(t, slurm);
    tcase_add_test(t, pods);
    tcase_add_test(t, yaml);
    tcase_add_test(t, json);
    tcase_add_test(t, host_names);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
