// MPI's functions, in processes into which this library is preloaded: each call becomes a row with its size, partner
// and communicator, or a range where it moves nothing, and goes on to the MPI library. Elsewhere these are not called.
//
// Handles may be pointers (Open MPI) or integers (MPICH and its descendants). The library's own functions, and those
// that answer our questions, are looked up under the names that MPI reserves for tools (PMPI_...), in the library that
// the calling module is linked with.
//
// Budget: 300 ns a call, once a communicator is known.
#include "record/inject/interposed.h"

namespace profgpu::inject::mpi {

namespace {

constexpr int kOtherError = 15;             // MPI_ERR_OTHER; without a library there is nobody to define it
constexpr Word kMpichWorld = 0x44000000;
constexpr int kMaxCommunicators = 64, kMaxHashed = 256;
constexpr int8_t kNone = -1;

// A function by its name, among all that is loaded, else among what `caller` is linked with.
void* find(const char* name, const void* caller) {
  if (dlsym == nullptr) return nullptr;
  void* const found = dlsym(RTLD_DEFAULT, name);
  return found != nullptr ? found : function_of_callers_libraries(name, caller);
}

// The library's form of a function: "MPI_Send" is PMPI_Send.
void* library_function(const char* name, const void* caller) {
  char text[64] = "P";
  if (strlen(name) + 2 > sizeof text) return nullptr;
  memcpy(text + 1, name, strlen(name) + 1);
  return find(text, caller);
}

/// What we ask the library.
struct Questions {
  int (*type_size)(Word, int*);
  int (*comm_rank)(Word, int*);
  int (*comm_size)(Word, int*);
  int (*comm_group)(Word, Word*);
  int (*test_inter)(Word, int*);
  int (*group_free)(Word*);
  int (*translate)(Word, int, const int*, Word, int*);
  Word world;
  std::atomic<bool> ready;
};
Questions ask;

bool find_questions(const void* caller) {
  if (ask.ready.load(std::memory_order_acquire)) return true;
  const auto get = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find(name, caller));
    return function != nullptr;
  };
  if (!get(ask.type_size, "PMPI_Type_size") || !get(ask.comm_rank, "PMPI_Comm_rank") ||
      !get(ask.comm_size, "PMPI_Comm_size") || !get(ask.comm_group, "PMPI_Comm_group") ||
      !get(ask.test_inter, "PMPI_Comm_test_inter") ||
      !get(ask.group_free, "PMPI_Group_free") || !get(ask.translate, "PMPI_Group_translate_ranks"))
    return false;
  void* const world = find("ompi_mpi_comm_world", caller);
  ask.world = world != nullptr ? reinterpret_cast<Word>(world) : kMpichWorld;
  ask.ready.store(true, std::memory_order_release);
  return true;
}

/// A communicator: `id` is the same on all of its ranks, and another one for other members.
struct Communicator {
  Word handle;
  uint64_t id, calls;
  uint32_t rank, ranks, name;
  bool between_groups;   // an intercommunicator: arrays of counts have an element for each remote rank
};
struct Communicators {
  Lock lock;
  uint32_t generation;   // of the recorder: a forked child's names are its own
  int count;
  Communicator all[kMaxCommunicators];
};
Communicators known;

uint64_t members_hash(Word handle, int ranks) {
  Word group = 0, world = 0;
  int own[kMaxHashed], in_world[kMaxHashed];
  const int count = ranks < kMaxHashed ? ranks : kMaxHashed;
  for (int i = 0; i < count; ++i) own[i] = i, in_world[i] = -1;
  if (ask.comm_group(handle, &group) == 0 && ask.comm_group(ask.world, &world) == 0)
    ask.translate(group, count, own, world, in_world);
  if (group != 0) ask.group_free(&group);
  if (world != 0) ask.group_free(&world);
  uint64_t hash = 0xcbf29ce484222325u + static_cast<uint64_t>(ranks);
  for (int i = 0; i < count; ++i) hash = (hash ^ static_cast<uint64_t>(in_world[i])) * 0x100000001b3u;
  return hash;
}

Communicator describe(Word handle) {
  Communicator c{handle, 0, 0, 0, 0, 0, false};
  int rank = -1, ranks = 0, inter = 0;
  if (ask.comm_rank(handle, &rank) != 0 || ask.comm_size(handle, &ranks) != 0 || ranks <= 0) return c;
  c.rank = static_cast<uint32_t>(rank), c.ranks = static_cast<uint32_t>(ranks);
  c.between_groups = ask.test_inter(handle, &inter) == 0 && inter != 0;
  c.id = members_hash(handle, ranks);
  c.name = intern(handle == ask.world ? "MPI_COMM_WORLD" : "MPI communicator");
  return c;
}

// MPICH's handles are an int, and the rest of a word is anything.
Word handle_of(Word word) { return ask.world > UINT32_MAX ? word : static_cast<uint32_t>(word); }

// Its facts, with the number of this call among its collectives.
Communicator take_call(Word handle, bool is_collective) {
  {
    const Locked held(known.lock);
    if (known.generation != recorder_generation()) known.generation = recorder_generation(), known.count = 0;
    for (int i = 0; i < known.count; ++i)
      if (known.all[i].handle == handle) {
        Communicator c = known.all[i];
        if (is_collective) ++known.all[i].calls;
        return c;
      }
  }
  Communicator c = describe(handle);   // asks the library: not under the lock
  const Locked held(known.lock);
  if (known.count < kMaxCommunicators && c.ranks > 0) {
    known.all[known.count] = c;
    if (is_collective) ++known.all[known.count].calls;
    ++known.count;
  }
  return c;
}

void forget(Word handle) {
  const Locked held(known.lock);
  for (int i = 0; i < known.count; ++i)
    if (known.all[i].handle == handle) known.all[i--] = known.all[--known.count];
}

// `communicator`: address of a handle.
void forget_at(Word communicator) {
  if (communicator == 0) return;
  const bool pointers = ask.ready && ask.world > UINT32_MAX;
  Word handle = 0;
  memcpy(&handle, reinterpret_cast<const void*>(communicator), pointers ? sizeof handle : sizeof(int));
  forget(handle);
}

/// Where a function has what a row says; kNone: nowhere. `function`: NCCL's name of the operation; null: only a range.
struct Shape {
  const char* name;
  const char* function = nullptr;
  int8_t count = kNone, type = kNone, partner = kNone, communicator = kNone;
  /// Where the first buffer of two is MPI_IN_PLACE, these hold; the buffer is argument `buffer`.
  int8_t buffer = kNone, other_count = kNone, other_type = kNone;
  /// The count is an array with an element a rank: the own one, or the mean of all.
  bool own_of_counts = false, mean_of_counts = false;
};

// MPI_IN_PLACE is 1 in Open MPI and -1 in MPICH.
bool is_in_place(Word buffer) { return buffer == 1 || buffer == ~Word{0}; }

uint64_t bytes_of(const Shape& shape, const Word* arguments, const Communicator& c) {
  const bool in_place = shape.buffer != kNone && is_in_place(arguments[shape.buffer]);
  const int8_t count_at = in_place ? shape.other_count : shape.count;
  const int8_t type_at = in_place ? shape.other_type : shape.type;
  if (count_at == kNone || type_at == kNone) return 0;
  // To MPI_PROC_NULL, which is negative: nothing is sent.
  if (strcmp(shape.function, "Send") == 0 && static_cast<int32_t>(arguments[shape.partner]) < 0) return 0;
  int64_t count = static_cast<int32_t>(arguments[count_at]);
  if (shape.own_of_counts || shape.mean_of_counts) {
    if (c.between_groups) return 0;
    const auto* const counts = reinterpret_cast<const int32_t*>(arguments[count_at]);
    count = 0;
    if (counts != nullptr && shape.own_of_counts) count = counts[c.rank];
    for (uint32_t i = 0; counts != nullptr && shape.mean_of_counts && i < c.ranks; ++i) count += counts[i];
    if (shape.mean_of_counts && c.ranks > 0) count /= c.ranks;
  }
  int size = 0;
  if (count <= 0 || ask.type_size(arguments[type_at], &size) != 0 || size <= 0) return 0;
  return static_cast<uint64_t>(count) * static_cast<uint64_t>(size);
}

void post_call(const Shape& shape, const Word* arguments, const Communicator& c, uint64_t bytes, int64_t start_ns,
               int64_t end_ns) {
  wire::CollectiveRow row;
  row.start_ns = start_ns;
  row.duration_ns = end_ns - start_ns;
  row.communicator = c.id;
  row.communicator_name = c.name;
  row.rank = c.rank;
  row.ranks = c.ranks;
  row.sequence = c.calls;
  row.function = intern(shape.function);
  row.data_type = intern("byte");
  row.algorithm = intern(shape.name);
  row.protocol = intern("MPI");
  row.count = bytes;
  if (shape.partner != kNone) row.root_or_peer = static_cast<int32_t>(arguments[shape.partner]);
  if (row.root_or_peer < 0) row.root_or_peer = -1;   // any source
  row.thread = thread_id();
  post(row);
}

bool is_pair(const Shape& shape) {
  return strcmp(shape.function, "Send") == 0 || strcmp(shape.function, "Recv") == 0;
}

// Calls the library and records the call. `at`: a wrapper's own memory of the library's function.
template <typename... Words>
int pass_on(const Shape& shape, std::atomic<void*>& at, const void* caller, Words... words) {
  const Word arguments[] = {static_cast<Word>(words)..., 0};
  void* function = at.load(std::memory_order_acquire);
  if (function == nullptr) {
    function = library_function(shape.name, caller);
    if (function == nullptr) return kOtherError;
    at.store(function, std::memory_order_release);
  }
  const auto call = [&] {
    return call_with_words(function, arguments, std::make_index_sequence<sizeof...(Words)>());
  };
  if (!recording_here() && !start_recorder("mpi")) return call();
  // Before the call: afterwards the communicator may be gone.
  Communicator c{};
  uint64_t bytes = 0;
  const bool moves = shape.function != nullptr && find_questions(caller);
  if (moves) {
    c = take_call(handle_of(arguments[shape.communicator]), !is_pair(shape));
    bytes = bytes_of(shape, arguments, c);
  }
  const int64_t start = host_now();
  const int result = call();
  const int64_t end = host_now();
  if (moves) post_call(shape, arguments, c, bytes, start, end);
  else post_library_call(shape.name, start, end);
  return result;
}

}  // namespace

}  // namespace profgpu::inject::mpi

using namespace profgpu::inject;
using namespace profgpu::inject::mpi;  // the exported functions have MPI's own names

// A function of so many arguments; what follows the name are members of its Shape.
#define PROFGPU_MPI(count, function_name, ...)                                            \
  PROFGPU_EXPORT int function_name(PROFGPU_WORDS_##count) {                               \
    static std::atomic<void*> at;                                                         \
    static const Shape shape{.name = #function_name __VA_OPT__(, ) __VA_ARGS__};          \
    return pass_on(shape, at, __builtin_return_address(0), PROFGPU_NAMES_##count);        \
  }

PROFGPU_MPI(2, MPI_Init)
PROFGPU_MPI(4, MPI_Init_thread)

#define PROFGPU_SEND .function = "Send", .count = 1, .type = 2, .partner = 3, .communicator = 5
PROFGPU_MPI(6, MPI_Send, PROFGPU_SEND)
PROFGPU_MPI(6, MPI_Ssend, PROFGPU_SEND)
PROFGPU_MPI(6, MPI_Bsend, PROFGPU_SEND)
PROFGPU_MPI(6, MPI_Rsend, PROFGPU_SEND)
PROFGPU_MPI(7, MPI_Isend, PROFGPU_SEND)
PROFGPU_MPI(7, MPI_Issend, PROFGPU_SEND)
#define PROFGPU_RECV .function = "Recv", .count = 1, .type = 2, .partner = 3, .communicator = 5
PROFGPU_MPI(7, MPI_Recv, PROFGPU_RECV)
PROFGPU_MPI(7, MPI_Irecv, PROFGPU_RECV)
PROFGPU_MPI(12, MPI_Sendrecv, .function = "Send", .count = 1, .type = 2, .partner = 3, .communicator = 10)

#define PROFGPU_BROADCAST .function = "Broadcast", .count = 1, .type = 2, .partner = 3, .communicator = 4
PROFGPU_MPI(5, MPI_Bcast, PROFGPU_BROADCAST)
PROFGPU_MPI(6, MPI_Ibcast, PROFGPU_BROADCAST)
#define PROFGPU_REDUCE .function = "Reduce", .count = 2, .type = 3, .partner = 5, .communicator = 6
PROFGPU_MPI(7, MPI_Reduce, PROFGPU_REDUCE)
PROFGPU_MPI(8, MPI_Ireduce, PROFGPU_REDUCE)
#define PROFGPU_ALL_REDUCE .function = "AllReduce", .count = 2, .type = 3, .communicator = 5
PROFGPU_MPI(6, MPI_Allreduce, PROFGPU_ALL_REDUCE)
PROFGPU_MPI(7, MPI_Iallreduce, PROFGPU_ALL_REDUCE)
PROFGPU_MPI(6, MPI_Scan, .function = "Scan", .count = 2, .type = 3, .communicator = 5)
PROFGPU_MPI(6, MPI_Exscan, .function = "Scan", .count = 2, .type = 3, .communicator = 5)
PROFGPU_MPI(6, MPI_Reduce_scatter_block, .function = "ReduceScatter", .count = 2, .type = 3, .communicator = 5)
PROFGPU_MPI(6, MPI_Reduce_scatter, .function = "ReduceScatter", .count = 2, .type = 3, .communicator = 5,
            .own_of_counts = true)

#define PROFGPU_GATHER                                                                                    \
  .function = "Gather", .count = 1, .type = 2, .partner = 6, .communicator = 7, .buffer = 0, .other_count = 4, \
  .other_type = 5
PROFGPU_MPI(8, MPI_Gather, PROFGPU_GATHER)
PROFGPU_MPI(9, MPI_Igather, PROFGPU_GATHER)
PROFGPU_MPI(9, MPI_Gatherv, .function = "Gather", .count = 1, .type = 2, .partner = 7, .communicator = 8, .buffer = 0)
#define PROFGPU_SCATTER                                                                                    \
  .function = "Scatter", .count = 4, .type = 5, .partner = 6, .communicator = 7, .buffer = 3, .other_count = 1, \
  .other_type = 2
PROFGPU_MPI(8, MPI_Scatter, PROFGPU_SCATTER)
PROFGPU_MPI(9, MPI_Iscatter, PROFGPU_SCATTER)
PROFGPU_MPI(9, MPI_Scatterv, .function = "Scatter", .count = 5, .type = 6, .partner = 7, .communicator = 8, .buffer = 4)
#define PROFGPU_ALL_GATHER .function = "AllGather", .count = 4, .type = 5, .communicator = 6
PROFGPU_MPI(7, MPI_Allgather, PROFGPU_ALL_GATHER)
PROFGPU_MPI(8, MPI_Iallgather, PROFGPU_ALL_GATHER)
PROFGPU_MPI(8, MPI_Allgatherv, .function = "AllGather", .count = 4, .type = 6, .communicator = 7,
            .mean_of_counts = true)
#define PROFGPU_ALL_TO_ALL .function = "AlltoAll", .count = 4, .type = 5, .communicator = 6
PROFGPU_MPI(7, MPI_Alltoall, PROFGPU_ALL_TO_ALL)
PROFGPU_MPI(8, MPI_Ialltoall, PROFGPU_ALL_TO_ALL)
PROFGPU_MPI(9, MPI_Alltoallv, .function = "AlltoAll", .count = 5, .type = 7, .communicator = 8, .mean_of_counts = true)
PROFGPU_MPI(1, MPI_Barrier, .function = "Barrier", .communicator = 0)
PROFGPU_MPI(2, MPI_Ibarrier, .function = "Barrier", .communicator = 0)

// Waits, and what moves nothing.
PROFGPU_MPI(2, MPI_Wait)
PROFGPU_MPI(3, MPI_Waitall)
PROFGPU_MPI(4, MPI_Waitany)
PROFGPU_MPI(5, MPI_Waitsome)
PROFGPU_MPI(4, MPI_Probe)
PROFGPU_MPI(2, MPI_Win_fence)
PROFGPU_MPI(4, MPI_Comm_split)
PROFGPU_MPI(2, MPI_Comm_dup)

// The library gives the handle to another communicator later.
#define PROFGPU_MPI_END(function_name)                                         \
  PROFGPU_EXPORT int function_name(Word communicator) {                        \
    static std::atomic<void*> at;                                              \
    static const Shape shape{.name = #function_name};                          \
    forget_at(communicator);                                                   \
    return pass_on(shape, at, __builtin_return_address(0), communicator);      \
  }
PROFGPU_MPI_END(MPI_Comm_free)
PROFGPU_MPI_END(MPI_Comm_disconnect)

PROFGPU_EXPORT int MPI_Finalize() {
  static std::atomic<void*> at;
  static const Shape shape{.name = "MPI_Finalize"};
  return pass_on(shape, at, __builtin_return_address(0));
}
