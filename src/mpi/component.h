/* What libprofgpu-mpi.so offers profgpu: the few calls of MPI that reading a job together takes. C, so that program and
 * component agree whatever MPI it was built for; the program itself links no MPI.
 *
 * All calls but the first and the last are collective. Whatever fails in MPI ends all processes, as MPI does. */
#ifndef PROFGPU_MPI_COMPONENT_H
#define PROFGPU_MPI_COMPONENT_H

#include <stdint.h>

#define PROFGPU_MPI_VERSION 2
#define PROFGPU_MPI_EXPORT __attribute__((visibility("default")))

struct profgpu_mpi {
  int32_t version;   /* PROFGPU_MPI_VERSION; another is not to be used */
  int32_t place;     /* of this process */
  int32_t count;
  /* Of each process the least number of a process on its host. Where the processes of a host cannot share memory, each
   * is as if on a host of its own. */
  const int32_t* hosts;
  uint64_t* taken;   /* one number for all processes of a host, 0 at first; read and written atomically */
};

/* Starts MPI and fills in `mpi`. 0, or what MPI_Init returned. */
PROFGPU_MPI_EXPORT int profgpu_mpi_begin(struct profgpu_mpi* mpi);

/* Bytes that each process has: `sizes[i]` of process i, on all of them. */
PROFGPU_MPI_EXPORT void profgpu_mpi_sizes(uint64_t mine, uint64_t* sizes);
/* On process 0 `theirs[i]`, `sizes[i]` long, gets the bytes of process i, from 1 on; the others send `mine`. */
PROFGPU_MPI_EXPORT void profgpu_mpi_gather(const char* mine, char* const* theirs, const uint64_t* sizes);

PROFGPU_MPI_EXPORT void profgpu_mpi_end(void);

#endif
