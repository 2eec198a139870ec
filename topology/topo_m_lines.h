/* The table in a text that holds what nvidia-smi topo -m printed: as it was copied from terminals, logs, tickets and web pages. */
#ifndef ZEP_TOPOLOGY_TOPO_M_LINES_H
#define ZEP_TOPOLOGY_TOPO_M_LINES_H

#include <stddef.h>

#include "common/error.h"

struct zep_matrix_line {
    char *text; /* without control sequences and what stands before the table (a time, a host, a mark of quotation), tabs as blanks */
    int line;   /* number of its first line in the text */
    int is_last; /* nothing follows in the whole text: it may be cut */
};

struct zep_matrix_text {
    struct zep_matrix_line *line; /* [0] the header, then rows and the legend; lines that were broken at a width are whole again */
    int n;
    int second; /* line of a second table, which was not read; 0 none */
    int n_other; /* lines of other streams (hosts, ranks), not read */
    char tag[80], other[80]; /* what stood before the lines, before the first of the others */
    int has_p2p; /* a table of topo -p2p was passed over */
};

/* n is 0 where there is no table. */
int zep_matrix_text_read(const char *text, size_t len, struct zep_matrix_text *out, struct zep_error *err);
void zep_matrix_text_free(struct zep_matrix_text *t);

/* Length of the cell at p ("X", "NV12", "PIX"), 0 where there is none; which distance and how many links it says (may be NULL). */
size_t zep_matrix_cell(const char *p, unsigned char *dist, unsigned char *links);

/* Whether some row "GPU3  NV4 ..." or "GPU0  X ..." is in the text. */
int zep_matrix_is_in(const char *text);

#endif
