#include "component.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* Counts are int in MPI before 4.0: larger messages go in pieces. */
static const uint64_t kPiece = UINT64_C(1) << 30;

static struct profgpu_mpi here;
static MPI_Win shared = MPI_WIN_NULL;
static int ours; /* this component started MPI */

static int size_of_piece(uint64_t left) { return (int)(left < kPiece ? left : kPiece); }

/* The number that the processes of a host share, or NULL on all of them. */
static uint64_t* shared_number(MPI_Comm host, int place_on_host) {
  uint64_t* number = NULL;
  MPI_Comm_set_errhandler(host, MPI_ERRORS_RETURN);
  int there = MPI_Win_allocate_shared(place_on_host == 0 ? sizeof *number : 0, sizeof *number, MPI_INFO_NULL, host,
                                      &number, &shared) == MPI_SUCCESS;
  if (there) {
    MPI_Aint size;
    int unit;
    MPI_Win_shared_query(shared, 0, &size, &unit, &number);
    if (place_on_host == 0) *number = 0;
  }
  /* Also the barrier before anybody takes. */
  MPI_Allreduce(MPI_IN_PLACE, &there, 1, MPI_INT, MPI_MIN, host);
  return there ? number : NULL;
}

/* Open MPI looks for networks for a fifth of a second, which processes of one host have no use for. */
static void spare_networks(void) {
  const char* all = getenv("OMPI_COMM_WORLD_SIZE");
  const char* on_host = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  const char* nodes = getenv("SLURM_STEP_NUM_NODES");
  const int one_host =
      all != NULL && on_host != NULL ? strcmp(all, on_host) == 0 : nodes != NULL && strcmp(nodes, "1") == 0;
  if (one_host) setenv("OMPI_MCA_pml", "ob1", 0);   /* whoever set it knows better */
}

int profgpu_mpi_begin(struct profgpu_mpi* mpi) {
  int started = 0;
  MPI_Initialized(&started);
  if (!started) {
    spare_networks();
    /* Threads read; only the one that began talks to MPI. */
    int provided = MPI_THREAD_SINGLE;
    const int status = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (status != MPI_SUCCESS) return status;
    ours = 1;
  }
  MPI_Comm host;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  here.version = PROFGPU_MPI_VERSION;
  MPI_Comm_rank(MPI_COMM_WORLD, &here.place);
  MPI_Comm_size(MPI_COMM_WORLD, &here.count);
  int place_on_host;
  MPI_Comm_rank(host, &place_on_host);
  here.taken = shared_number(host, place_on_host);
  int32_t first = here.place;
  if (here.taken != NULL) {
    MPI_Bcast(&first, 1, MPI_INT32_T, 0, host);
  } else {
    static uint64_t alone;
    here.taken = &alone;
  }
  int32_t* hosts = malloc((size_t)here.count * sizeof *hosts);
  if (hosts == NULL) return MPI_ERR_NO_MEM;
  MPI_Allgather(&first, 1, MPI_INT32_T, hosts, 1, MPI_INT32_T, MPI_COMM_WORLD);
  here.hosts = hosts;
  MPI_Comm_free(&host);
  *mpi = here;
  return 0;
}

void profgpu_mpi_sizes(uint64_t mine, uint64_t* sizes) {
  MPI_Allgather(&mine, 1, MPI_UINT64_T, sizes, 1, MPI_UINT64_T, MPI_COMM_WORLD);
}

void profgpu_mpi_gather(const char* mine, char* const* theirs, const uint64_t* sizes) {
  if (here.place != 0) {
    for (uint64_t at = 0; at < sizes[here.place]; at += kPiece)
      MPI_Send(mine + at, size_of_piece(sizes[here.place] - at), MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    return;
  }
  for (int from = 1; from < here.count; ++from)
    for (uint64_t at = 0; at < sizes[from]; at += kPiece)
      MPI_Recv(theirs[from] + at, size_of_piece(sizes[from] - at), MPI_BYTE, from, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}

void profgpu_mpi_end(void) {
  if (shared != MPI_WIN_NULL) MPI_Win_free(&shared);
  if (ours) MPI_Finalize();
  ours = 0;
}
