/* zeppelin topo --measure: what transfers really take, over what was read. */
#ifndef ZEP_LAUNCHER_MEASURE_H
#define ZEP_LAUNCHER_MEASURE_H

#include "topology/topo.h"

/* Starts zeppelin-measure on the nodes of the topology (in a Slurm allocation by srun or mpirun, with hosts by mpirun, else on this machine) and writes what it measured into topo: bandwidth of each NIC,
 * of uplinks where the nodes of a leaf together fall short of their NICs, latencies; between devices of a node where these are CPU slots (a GPU's memory is not reached). rounds: repetitions, 3 to 1000. */
int zep_measure(struct zep_topo *topo, const char *hosts, int rounds, struct zep_error *err);
/* Reads what zeppelin-measure printed into topo. */
int zep_measure_apply(struct zep_topo *topo, const char *text, size_t len, struct zep_error *err);

#endif
