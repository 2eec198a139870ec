/* Encoders for text that crosses into another language (design, section 12). Control characters are refused by all: ZEP_EINVAL. */
#ifndef ZEP_COMMON_ENCODE_H
#define ZEP_COMMON_ENCODE_H

#include "common/buf.h"
#include "common/error.h"

/* One shell word: plain if [A-Za-z0-9_./:=,@%+-]+, else single-quoted with '\'' . */
int zep_encode_shell(struct zep_buf *b, const char *s, struct zep_error *err);
/* The value of `#SBATCH --key=VALUE`: sbatch splits the line like a shell would (quotes, backslashes), and `#` after a blank starts a comment. */
int zep_encode_sbatch(struct zep_buf *b, const char *s, struct zep_error *err);
/* A path inside a Slurm file name pattern: % doubled, backslash refused (Slurm's own escape switches all patterns off). */
int zep_encode_slurm_path(struct zep_buf *b, const char *s, struct zep_error *err);
/* A value of env, command or args in a pod: Kubernetes replaces $(NAME) and reads $$ as $, so that each $ is doubled. Line feeds and tabs may stand in it. */
int zep_encode_pod_text(struct zep_buf *b, const char *s, struct zep_error *err);
/* XML text and attribute values (for SVG). Invalid UTF-8 becomes U+FFFD. */
int zep_encode_xml(struct zep_buf *b, const char *s, struct zep_error *err);
/* The UTF-8 sequence at s: its length and code point; 0: it is none. */
int zep_utf8_next(const char *s, unsigned *code_out);
/* Is it a character that can be shown: no control character, no separator of lines, no mark of byte order? */
int zep_utf8_prints(unsigned code);
/* Whether a text can be shown and written: valid UTF-8 without control characters. */
int zep_text_is_clean(const char *s);
/* Makes it so, in place: '?' for each byte that is not. */
void zep_text_clean(char *s);
/* Is word one of a list "a,b,c"? list may be NULL. */
int zep_text_lists(const char *list, const char *word);
/* [A-Za-z0-9._-]+ without a leading '-', at most 253 bytes: for ssh and mpirun. */
int zep_check_hostname(const char *s, struct zep_error *err);

#endif
