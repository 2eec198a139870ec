/* Reading a job: layers, profiles, locks. */
#include "config.h"
#include "common/job_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/format.h"
#include "common/fs.h"
#include "common/yaml.h"

/* A key that the site file locks, and where it does. */
struct lock {
    const char *name;
    char *where;
};

struct loader {
    struct zep_job *job;
    struct zep_mistakes *m;
    enum zep_job_layer layer;
    const char *suffix;       /* of a place: " (profile gpu)" */
    int literal;              /* what a program wrote: a dollar is a dollar */
    struct zep_yaml *site, *user, *file; /* NULL: not there */
    char *site_path;
    struct lock *lock;
    int n_lock;
    const char *contact;      /* whom the site file names, or NULL */
};

void zep_job_mistake(const struct zep_job *job, struct zep_mistakes *m, const char *key, enum zep_status code, const char *fmt, ...)
{
    const char *origin = zep_job_origin(job, key);
    int written = strcmp(origin, "default") != 0;
    struct zep_error one;
    va_list ap;

    va_start(ap, fmt);
    zep_error_vset(&one, code, fmt, ap);
    va_end(ap);
    zep_mistakes_add(m, key, code, "%s%s%s", written ? origin : "", written ? ": " : "", one.text);
}

/* --- one value --- */

static void unknown_key(struct loader *l, const char *name, const char *where)
{
    int n;
    const struct zep_job_key *key = zep_job_keys(&n);
    const char **names = zep_calloc((size_t)n + 1, sizeof *names), *near = NULL;

    for (int i = 0; names && i < n; i++)
        names[i] = key[i].name;
    if (names)
        near = zep_nearest(name, names);
    if (near)
        zep_mistakes_add(l->m, near, ZEP_EINVAL, "%s: unknown key '%s' (did you mean '%s'?)", where, name, near);
    else
        zep_mistakes_add(l->m, name, ZEP_EINVAL, "%s: unknown key '%s': `zeppelin job init` prints all keys", where, name);
    free(names);
}

static const struct lock *find_lock(const struct loader *l, const struct job_place *place, const char *name)
{
    for (int i = 0; i < l->n_lock; i++)
        if (!strcmp(l->lock[i].name, name) || !strcmp(l->lock[i].name, place->key->name))
            return &l->lock[i];
    return NULL;
}

/* 1: the value is another one than the site's, and must not be. */
static int refused_by_lock(struct loader *l, const struct job_place *place, const char *name, const char *value, const char *where)
{
    const struct lock *lock = l->layer > ZEP_JOB_PROFILE ? find_lock(l, place, name) : NULL;
    char *before, *after;
    struct zep_error err;
    int same, secret = place->key->type == ZEP_JOB_SECRETS;

    if (!lock)
        return 0;
    if (!strcmp(name, "cluster.profile") && zep_mistakes_doubt(l->m, name)) /* told where it was chosen */
        return 1;
    before = zep_job_get(l->job, place);
    same = before && zep_job_set(l->job, place, value, where, l->layer, &err) == ZEP_OK && (after = zep_job_get(l->job, place)) != NULL;
    if (same) {
        same = !strcmp(before, after);
        free(after);
        if (!same)
            zep_job_set(l->job, place, before, lock->where, ZEP_JOB_SITE, &err);
    }
    if (!same && secret)
        zep_mistakes_add(l->m, name, ZEP_EINVAL, "%s: %s is locked by %s: take it out%s%s", where, name, lock->where, l->contact ? ", or ask " : "", l->contact ? l->contact : "");
    else if (!same)
        zep_mistakes_add(l->m, name, ZEP_EINVAL, "%s: %s: '%.200s': locked to '%.200s' by %s: take it out%s%s", where, name, value, before ? before : "", lock->where, l->contact ? ", or ask " : "",
                         l->contact ? l->contact : "");
    free(before);
    return 1;
}

/* Perhaps with a secret as its value, by mistake: that is repeated nowhere. Values of keys that are known are not meant. */
static int is_private(const char *name)
{
    struct job_place place;

    if (zep_job_find(name, &place) && !job_is_map(place.key->type))
        return 0;
    return strcasestr(name, "secret") != NULL || zep_job_looks_secret(name);
}

/* One value from a file or from --set. */
static void apply(struct loader *l, const char *name, const char *value, const char *where)
{
    struct job_place place;
    struct zep_error err;
    const char *at;
    int len;

    if (!zep_job_find(name, &place)) {
        unknown_key(l, name, where);
    } else if (l->layer == ZEP_JOB_SET && !strcmp(name, "cluster.setup")) {
        zep_mistakes_add(l->m, name, ZEP_EINVAL, "--set cluster.setup: it is code, and comes from files only: expected it in the job file, or in the site's");
    } else if (!l->literal && place.key->type != ZEP_JOB_SECRETS && !is_private(name) && (len = zep_job_variable(place.key, value, &at)) > 0) {
        if (*at == '~')
            zep_mistakes_add(l->m, name, ZEP_EINVAL, "%s: %s: '%.300s': '~' is not expanded: write the path out, or let your shell do it: --set %s=\"$HOME%.300s\"", where, name, value, name, value + 1);
        else if (place.key->type == ZEP_JOB_ENV)
            zep_mistakes_add(l->m, name, ZEP_EINVAL, "%s: %s: '%.300s': %.*s is not expanded: write the value out, or set the variable in cluster.setup, which a shell runs", where, name, value, len, at);
        else
            zep_mistakes_add(l->m, name, ZEP_EINVAL, "%s: %s: '%.300s': %.*s is not expanded: write the value out, or let your shell do it: --set %s=\"%.300s\"", where, name, value, len, at, name, value);
    } else if (!refused_by_lock(l, &place, name, value, where) && zep_job_set(l->job, &place, value, where, l->layer, &err) < 0) {
        zep_mistakes_add(l->m, name, ZEP_EINVAL, "%s: %s: %s", where, name, err.text);
    }
}

/* --- one document --- */

static const char *const site_keys[] = {"format", "profile", "profiles", "locked", "contact", NULL}; /* besides those of a job */
static const char *const secret_kinds[] = {"env", "file", "k8s", NULL};

static int is_one_of(const char *const *names, const char *word)
{
    for (; *names; names++)
        if (!strcmp(*names, word))
            return 1;
    return 0;
}

static int is_section(const char *name)
{
    int n;
    const struct zep_job_key *key = zep_job_keys(&n);
    size_t len = strlen(name);

    for (int i = 0; i < n; i++)
        if (!strncmp(key[i].name, name, len) && key[i].name[len] == '.')
            return 1;
    return 0;
}

static void place_text(const struct loader *l, const struct zep_yaml *doc, int line, char where[512])
{
    snprintf(where, 512, "%.400s:%d%.80s", zep_yaml_name(doc), line, l->suffix);
}

/* Names below a key that has such; a secret may be written as a map of one. */
static void merge_entries(struct loader *l, const struct zep_yaml *doc, const struct zep_yaml_node *map, const struct zep_job_key *key)
{
    for (int i = 0; i < map->n; i++) {
        const struct zep_yaml_node *v = map->child[i];
        char name[400], where[512], value[1100];

        snprintf(name, sizeof name, "%s.%.250s", key->name, map->keys[i]);
        place_text(l, doc, map->key_lines[i], where);
        if (v->type == ZEP_YAML_SCALAR && !zep_yaml_is_null(v)) {
            apply(l, name, v->scalar, where);
        } else if (key->type == ZEP_JOB_SECRETS && v->type == ZEP_YAML_MAP && v->n == 1 && is_one_of(secret_kinds, v->keys[0]) && v->child[0]->type == ZEP_YAML_SCALAR) {
            snprintf(value, sizeof value, "%s:%.1000s", v->keys[0], v->child[0]->scalar);
            apply(l, name, value, where);
        } else if (v->type != ZEP_YAML_SCALAR || key->type == ZEP_JOB_SECRETS) {
            zep_mistakes_add(l->m, name, ZEP_EINVAL, "%s: %s: expected %s", where, name, key->type == ZEP_JOB_SECRETS ? "{env: NAME}, {file: PATH} or {k8s: SECRET/KEY}" : "one value");
        }
    }
}

static void merge_value(struct loader *l, const struct zep_yaml *doc, const struct zep_yaml_node *v, const char *name, const char *where)
{
    struct job_place place;

    if (zep_job_find(name, &place) && job_is_map(place.key->type) && !place.entry && v->type == ZEP_YAML_MAP)
        merge_entries(l, doc, v, place.key);
    else if (v->type == ZEP_YAML_SCALAR && !zep_yaml_is_null(v))
        apply(l, name, v->scalar, where);
    else if (v->type != ZEP_YAML_SCALAR && zep_job_find(name, &place))
        zep_mistakes_add(l->m, name, ZEP_EINVAL, "%s: %s: expected %s", where, name, job_is_map(place.key->type) ? "names and values below it" : "one value");
    else if (v->type != ZEP_YAML_SCALAR)
        unknown_key(l, name, where);
    /* else nothing is written: the value before stays */
}

static void merge_map(struct loader *l, const struct zep_yaml *doc, const struct zep_yaml_node *map, const char *section)
{
    for (int i = 0; i < map->n; i++) {
        const struct zep_yaml_node *v = map->child[i];
        char name[256], where[512];

        if (!section && (l->layer == ZEP_JOB_SITE || l->layer == ZEP_JOB_PROFILE) && is_one_of(site_keys, map->keys[i]))
            continue;
        snprintf(name, sizeof name, "%s%s%.100s", section ? section : "", section ? "." : "", map->keys[i]);
        place_text(l, doc, map->key_lines[i], where);
        if (section || !is_section(name))
            merge_value(l, doc, v, name, where);
        else if (v->type == ZEP_YAML_MAP)
            merge_map(l, doc, v, name);
        else if (!zep_yaml_is_null(v))
            zep_mistakes_add(l->m, NULL, ZEP_EINVAL, "%s: %s: expected keys below it", where, name);
    }
}

static int check_root(const struct zep_yaml *doc, const char *kind, struct zep_error *err)
{
    const struct zep_yaml_node *root = zep_yaml_root(doc), *format;
    int rc;

    if (root->type != ZEP_YAML_MAP)
        return zep_yaml_error(doc, root, err, "expected keys and values (format %s/1.0)", kind);
    format = zep_yaml_get(root, "format");
    if (format && format->type == ZEP_YAML_SCALAR && (rc = zep_format_check(format->scalar, kind, 1, 0, NULL, err)) < 0)
        return zep_error_prefix(err, "%s:%d: format", zep_yaml_name(doc), format->line);
    return ZEP_OK;
}

static void merge_doc(struct loader *l, const struct zep_yaml *doc, enum zep_job_layer layer)
{
    l->layer = layer;
    if (doc)
        merge_map(l, doc, zep_yaml_root(doc), NULL);
}

static void apply_sets(struct loader *l, const char *const *sets, int n_set)
{
    l->layer = ZEP_JOB_SET;
    for (int i = 0; i < n_set; i++) {
        const char *eq = strchr(sets[i], '=');
        char name[300], where[300];

        if (!eq || eq == sets[i] || eq - sets[i] >= 256) {
            zep_mistakes_add(l->m, NULL, ZEP_EINVAL, "--set '%.100s': expected KEY=VALUE, as in train.steps=100", sets[i]);
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)(eq - sets[i]), sets[i]);
        snprintf(where, sizeof where, "--set %.250s", is_private(name) ? name : sets[i]);
        apply(l, name, eq + 1, where);
    }
}

/* --- the site file --- */

static void add_locks(struct loader *l, const struct zep_yaml_node *list)
{
    const struct zep_yaml *doc = l->site;
    char where[512];

    if (list && list->type != ZEP_YAML_SEQ && !zep_yaml_is_null(list)) {
        place_text(l, doc, list->line, where);
        zep_mistakes_add(l->m, NULL, ZEP_EINVAL, "%s: locked: expected a list of keys, as [cluster.account]", where);
    }
    for (int i = 0; list && list->type == ZEP_YAML_SEQ && i < list->n; i++) {
        const char *name = list->child[i]->type == ZEP_YAML_SCALAR ? list->child[i]->scalar : "";
        struct job_place place;
        struct lock *more;

        place_text(l, doc, list->child[i]->line, where);
        if (!zep_job_find(name, &place)) {
            unknown_key(l, name, where);
            continue;
        }
        if (!(more = zep_reallocarray(l->lock, (size_t)l->n_lock + 1, sizeof *more)))
            return;
        l->lock = more;
        l->lock[l->n_lock++] = (struct lock){name, strdup(where)};
        if (!l->lock[l->n_lock - 1].where)
            l->n_lock--;
    }
}

static const struct zep_yaml_node *scalar_at(const struct zep_yaml *doc, const char *section, const char *key)
{
    const struct zep_yaml_node *map = doc ? zep_yaml_root(doc) : NULL, *v;

    if (map && section)
        map = zep_yaml_get(map, section);
    v = map ? zep_yaml_get(map, key) : NULL;
    return v && v->type == ZEP_YAML_SCALAR && !zep_yaml_is_null(v) ? v : NULL;
}

/* The profile's name, NULL: none; where it is asked for. Later sources win. */
static const char *find_profile(const struct loader *l, const char *const *sets, int n_set, char where[512])
{
    const struct zep_yaml *docs[] = {l->file, l->user};
    const struct zep_yaml_node *v;

    for (int i = n_set - 1; i >= 0; i--)
        if (!strncmp(sets[i], "cluster.profile=", 16)) {
            snprintf(where, 512, "--set %.250s", sets[i]);
            return sets[i] + 16;
        }
    for (int i = 0; i < 2; i++)
        if ((v = scalar_at(docs[i], "cluster", "profile"))) {
            place_text(l, docs[i], v->line, where);
            return v->scalar;
        }
    if (!(v = scalar_at(l->site, NULL, "profile")))
        return NULL;
    place_text(l, l->site, v->line, where);
    return v->scalar;
}

static void unknown_profile(struct loader *l, const char *name, const char *where, const struct zep_yaml_node *profiles)
{
    struct zep_buf list = ZEP_BUF_INIT;
    int n = profiles && profiles->type == ZEP_YAML_MAP ? profiles->n : 0;

    for (int i = 0; i < n; i++)
        zep_buf_printf(&list, "%s%s", !i ? "" : i == n - 1 ? " or " : ", ", profiles->keys[i]);
    if (n)
        zep_mistakes_add(l->m, "cluster.profile", ZEP_EINVAL, "%s: cluster.profile: '%.100s': expected one of the profiles of %s: %s", where, name, zep_yaml_name(l->site), list.data ? list.data : "");
    else
        zep_mistakes_add(l->m, "cluster.profile", ZEP_EINVAL, "%s: cluster.profile: '%.100s': %s%s", where, name, l->site ? l->site_path : "there is no site file", l->site ? " has no profiles" : ", and so no profile");
    zep_buf_free(&list);
}

static void merge_site(struct loader *l, const char *const *sets, int n_set)
{
    const struct zep_yaml_node *root = l->site ? zep_yaml_root(l->site) : NULL, *profiles = root ? zep_yaml_get(root, "profiles") : NULL, *profile, *v;
    const struct zep_yaml_node *own = scalar_at(l->site, NULL, "profile");
    const struct lock *lock;
    struct job_place place;
    char where[512], suffix[100];
    const char *name;

    merge_doc(l, l->site, ZEP_JOB_SITE);
    add_locks(l, root ? zep_yaml_get(root, "locked") : NULL);
    l->contact = (v = scalar_at(l->site, NULL, "contact")) ? v->scalar : NULL;
    name = find_profile(l, sets, n_set, where);
    if (name && zep_job_find("cluster.profile", &place) && (lock = find_lock(l, &place, "cluster.profile")) && strcmp(name, own ? own->scalar : "")) {
        zep_mistakes_add(l->m, "cluster.profile", ZEP_EINVAL, "%s: cluster.profile: '%.100s': locked to '%.100s' by %s: take it out%s%s", where, name, own ? own->scalar : "", lock->where,
                         l->contact ? ", or ask " : "", l->contact ? l->contact : "");
        return;
    }
    if (!name || !*name)
        return;
    profile = profiles ? zep_yaml_get(profiles, name) : NULL;
    if (!profile || profile->type != ZEP_YAML_MAP) {
        unknown_profile(l, name, where, profiles);
        return;
    }
    snprintf(suffix, sizeof suffix, " (profile %.60s)", name);
    l->suffix = suffix;
    l->layer = ZEP_JOB_PROFILE;
    merge_map(l, l->site, profile, NULL);
    add_locks(l, zep_yaml_get(profile, "locked"));
    l->suffix = "";
    apply(l, "cluster.profile", name, where);
}

/* --- all of it --- */

static int load_doc(const struct loader *l, const char *path, const char *kind, struct zep_yaml **out, struct zep_error *err)
{
    struct zep_yaml *doc = NULL;
    int rc = zep_yaml_load_file_all(path, l->m, &doc, err);

    if (rc == ZEP_OK)
        rc = check_root(doc, kind, err);
    if (rc < 0)
        zep_yaml_free(doc);
    else
        *out = doc;
    return rc;
}

static int load_site(struct loader *l, struct zep_error *err)
{
    const char *wanted = getenv("ZEPPELIN_SITE");
    int rc;

    if (!(l->site_path = strdup(wanted ? wanted : ZEP_SYSCONFDIR "/zeppelin/site.yaml")))
        return zep_error_nomem(err, "site file");
    if (!*l->site_path || (!wanted && !zep_fs_exists(l->site_path)))
        return ZEP_OK;
    if ((rc = load_doc(l, l->site_path, "zeppelin-site", &l->site, err)) < 0 && wanted)
        zep_error_prefix(err, "the site file that ZEPPELIN_SITE names");
    return rc;
}

static int load_user(struct loader *l, struct zep_error *err)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    struct zep_buf user = ZEP_BUF_INIT;
    int rc = ZEP_OK;

    if (xdg && *xdg == '/')
        zep_buf_printf(&user, "%s/zeppelin/config.yaml", xdg);
    else if (home && *home == '/')
        zep_buf_printf(&user, "%s/.config/zeppelin/config.yaml", home);
    if (user.data && zep_fs_exists(user.data))
        rc = load_doc(l, user.data, "zeppelin-job", &l->user, err);
    zep_buf_free(&user);
    return rc;
}

static int begin(struct loader *l, struct zep_mistakes *m, struct zep_error *err)
{
    *l = (struct loader){.m = m, .suffix = ""};
    return zep_job_new(&l->job, err);
}

static int end(struct loader *l, int rc, struct zep_job **job_out)
{
    if (rc == ZEP_OK)
        zep_job_cross_check(l->job, l->m);
    for (int i = 0; i < l->n_lock; i++)
        free(l->lock[i].where);
    free(l->lock);
    free(l->site_path);
    zep_yaml_free(l->site);
    zep_yaml_free(l->user);
    zep_yaml_free(l->file);
    if (rc < 0)
        zep_job_free(l->job);
    else
        *job_out = l->job;
    return rc;
}

int zep_job_read(const char *path, const char *const *sets, int n_set, struct zep_mistakes *m, struct zep_job **job_out, struct zep_error *err)
{
    struct loader l;
    int rc;

    if ((rc = begin(&l, m, err)) < 0)
        return rc;
    if ((rc = load_site(&l, err)) == ZEP_OK && (rc = load_user(&l, err)) == ZEP_OK && path)
        rc = load_doc(&l, path, "zeppelin-job", &l.file, err);
    if (rc == ZEP_OK) {
        merge_site(&l, sets, n_set);
        merge_doc(&l, l.user, ZEP_JOB_USER);
        merge_doc(&l, l.file, ZEP_JOB_FILE);
        apply_sets(&l, sets, n_set);
    }
    return end(&l, rc, job_out);
}

/* A job that was read with mistakes is none. */
static int without_mistakes(int rc, struct zep_mistakes *m, struct zep_job *job, struct zep_job **job_out, struct zep_error *err)
{
    if (rc == ZEP_OK && (rc = zep_mistakes_error(m, err)) < 0)
        zep_job_free(job);
    else if (rc == ZEP_OK)
        *job_out = job;
    zep_mistakes_free(m);
    return rc;
}

int zep_job_load(const char *path, const char *const *sets, int n_set, struct zep_job **job_out, struct zep_error *err)
{
    struct zep_mistakes m = ZEP_MISTAKES_INIT;
    struct zep_job *job = NULL;
    int rc = zep_job_read(path, sets, n_set, &m, &job, err);

    return without_mistakes(rc, &m, job, job_out, err);
}

/* Only what the site locks is looked at, and only where something is set. */
static int lock_sets(struct loader *l, const char *const *sets, int n_set, struct zep_error *err)
{
    const struct zep_yaml_node *profile, *v;
    int rc;

    if (!n_set)
        return ZEP_OK;
    if ((rc = load_site(l, err)) < 0 || !l->site)
        return rc;
    add_locks(l, zep_yaml_get(zep_yaml_root(l->site), "locked"));
    if ((profile = zep_yaml_get(zep_yaml_root(l->site), "profiles")) && (profile = zep_yaml_get(profile, l->job->cluster.profile)))
        add_locks(l, zep_yaml_get(profile, "locked"));
    l->contact = (v = scalar_at(l->site, NULL, "contact")) ? v->scalar : NULL;
    for (int i = 0; i < n_set; i++)
        if (!strncmp(sets[i], "cluster.profile=", 16))
            zep_mistakes_add(l->m, NULL, ZEP_EINVAL, "--set %.250s: a run that is resumed keeps its values: expected the keys themselves", sets[i]);
    return ZEP_OK;
}

int zep_job_load_run(const char *path, const char *const *sets, int n_set, struct zep_job **job_out, struct zep_error *err)
{
    struct zep_mistakes m = ZEP_MISTAKES_INIT;
    struct zep_job *job = NULL;
    struct loader l;
    int rc;

    if ((rc = begin(&l, &m, err)) < 0)
        return rc;
    l.literal = ((struct job_full *)l.job)->resolved = 1;
    if ((rc = load_doc(&l, path, "zeppelin-job", &l.file, err)) == ZEP_OK)
        merge_doc(&l, l.file, ZEP_JOB_FILE);
    l.literal = 0;
    if (rc == ZEP_OK && (rc = lock_sets(&l, sets, n_set, err)) == ZEP_OK)
        apply_sets(&l, sets, n_set);
    rc = end(&l, rc, &job);
    return without_mistakes(rc, &m, job, job_out, err);
}

int zep_job_parse(const char *name, const char *text, size_t len, struct zep_job **job_out, struct zep_error *err)
{
    struct zep_mistakes m = ZEP_MISTAKES_INIT;
    struct zep_job *job = NULL;
    struct loader l;
    int rc;

    if ((rc = begin(&l, &m, err)) < 0)
        return rc;
    l.literal = ((struct job_full *)l.job)->resolved = 1;
    if ((rc = zep_yaml_load(name, text, len, &l.file, err)) == ZEP_OK && (rc = check_root(l.file, "zeppelin-job", err)) == ZEP_OK)
        merge_doc(&l, l.file, ZEP_JOB_FILE);
    rc = end(&l, rc, &job);
    return without_mistakes(rc, &m, job, job_out, err);
}
