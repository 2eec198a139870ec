/* The table of known machines, for lists in help. */
#ifndef ZEP_TOPOLOGY_PRESET_H
#define ZEP_TOPOLOGY_PRESET_H

const char *zep_preset_name(int i); /* NULL behind the last */
const char *zep_preset_what(int i);

#endif
