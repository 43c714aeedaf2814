// A stand-in for libnccl.so.2: collectives take as long as the scenario's rates say, and move bytes, within a process
// and between processes. README.md says how it is driven.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "model.h"

namespace {

constexpr int kInvalidUsage = 5, kSystemError = 2;
constexpr uint64_t kElement = 4;   // INT32 is all that is used
constexpr size_t kMaxRanks = 16;

// What a rank puts where the others see it: its part of one collective.
struct Part {
  char name[24];
  uint64_t bytes;
  int peer, value;   // value: the byte that its memory holds
};
struct Post {
  std::atomic<int64_t> number;   // 0: none yet
  double gbps;
  size_t parts;
  Part part[2 * kMaxRanks];
};
struct Shared {
  Post all[2][kMaxRanks];                 // of collectives, by number and rank
  Post pairs[2][kMaxRanks][kMaxRanks];    // of messages, by number, rank and peer
};
struct Id {
  char path[128];
};

struct ModelCommunicator {
  int rank, ranks;
  Shared* shared = nullptr;      // null: all ranks are in this process
  int64_t number = 0;                     // of the newest collective
  int64_t messages[kMaxRanks] = {};       // of the newest messages with each
};
int64_t open_communicators = 0;

struct Call {
  std::string name;
  uint64_t from, to, bytes;
  int peer, rank, value;
  ModelCommunicator* communicator;   // null: of another process
  void* stream;
  double gbps;
};
std::vector<Call> group;

// "pair.0.2=20": what messages between two ranks reach.
double pair_gbps(int a, int b, double otherwise) {
  const auto setting = [&](int x, int y, double or_else) {
    return model_setting(("pair." + std::to_string(x) + "." + std::to_string(y)).c_str(), -1, or_else);
  };
  return setting(a, b, setting(b, a, otherwise));
}

// Of what is left in place the sums grow with each call: a byte wraps.
int sum_of(const std::vector<Call>& calls) {
  int sum = 0;
  for (const Call& c : calls) sum = (sum + c.value) & 0xFF;
  return sum;
}

// What one rank's memory holds afterwards; all calls are of one kind, in order of ranks.
void move_bytes(const std::vector<Call>& calls, const Call& c) {
  const uint64_t ranks = calls.size();
  if (c.name == "ncclAllReduce") model_fill(c.to, c.bytes, sum_of(calls));
  if (c.name == "ncclReduce" && c.rank == c.peer) model_fill(c.to, c.bytes, sum_of(calls));
  if (c.name == "ncclReduceScatter") model_fill(c.to, c.bytes / ranks, sum_of(calls));
  if (c.name == "ncclBroadcast") model_fill(c.to, c.bytes, calls[static_cast<size_t>(c.peer)].value);
  if (c.name == "ncclAllGather")
    for (uint64_t r = 0; r < ranks; ++r) model_fill(c.to + r * c.bytes / ranks, c.bytes / ranks, calls[r].value);
}

double factor_of(const std::string& name, double ranks) {
  if (name == "ncclAllReduce") return 2 * (ranks - 1) / ranks;
  return name == "ncclAllGather" || name == "ncclReduceScatter" ? (ranks - 1) / ranks : 1;
}

double slowest(const std::vector<Call>& calls) {
  double gbps = 1e18;
  for (const Call& c : calls) gbps = std::min(gbps, c.gbps);
  return gbps;
}

int run_on_all(const std::vector<Call>& calls, double ns) {
  std::vector<void*> streams;
  for (const Call& c : calls)
    if (c.stream && std::find(streams.begin(), streams.end(), c.stream) == streams.end()) streams.push_back(c.stream);
  for (void* stream : streams)
    if (const int failed = model_collective(stream, ns)) return failed;
  return 0;
}

// Bytes to other ranks count, as in nccl-tests: what a rank keeps to itself is no traffic.
int messages(const std::vector<Call>& calls) {
  double longest_ns = 0;
  for (const Call& s : calls) {
    if (s.name != "ncclSend") continue;
    uint64_t out = 0;
    double gbps = 1e18;
    for (const Call& other : calls)
      if (other.name == "ncclSend" && other.rank == s.rank && other.peer != other.rank) {
        out += other.bytes;
        gbps = std::min(gbps, pair_gbps(other.rank, other.peer, slowest(calls)));
      }
    longest_ns = std::max(longest_ns, static_cast<double>(out) / gbps);
    // The receives of this sender, in order: its n-th send to a peer meets the peer's n-th receive from it.
    for (const Call& r : calls)
      if (r.name == "ncclRecv" && r.rank == s.peer && r.peer == s.rank && r.communicator)
        model_fill(r.to, r.bytes, s.value);
  }
  return run_on_all(calls, model_setting("nccl_ns", -1, 10'000) + longest_ns);
}

int collective(std::vector<Call> calls, size_t ranks) {
  const std::string name = calls.front().name;
  if (name == "ncclSend" || name == "ncclRecv") return messages(calls);
  if (calls.size() != ranks) return kInvalidUsage;   // a rank is missing: it would hang
  for (const Call& c : calls)
    if (c.name != name || c.bytes != calls.front().bytes) return kInvalidUsage;
  std::sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) { return a.rank < b.rank; });
  for (const Call& c : calls)
    if (c.communicator) move_bytes(calls, c);
  const Call& last = calls.back();
  if (last.communicator && model_setting("wrong", -1, 0) != 0) model_fill(last.to, 4, 99);
  const double traffic = factor_of(name, static_cast<double>(calls.size())) * static_cast<double>(calls.front().bytes);
  return run_on_all(calls, model_setting("nccl_ns", -1, 10'000) + traffic / slowest(calls));
}

// Writes our part, waits for theirs as NCCL does, for ever, and adds it to `calls`.
void post(Post& own, int64_t number, const std::vector<Call>& mine) {
  own.gbps = mine.front().gbps, own.parts = mine.size();
  for (size_t i = 0; i < mine.size(); ++i) {
    Part& part = own.part[i];
    std::snprintf(part.name, sizeof part.name, "%s", mine[i].name.c_str());
    part.bytes = mine[i].bytes, part.peer = mine[i].peer, part.value = mine[i].value;
  }
  own.number.store(number, std::memory_order_release);
}
void await(const Post& theirs, int64_t number, int rank, std::vector<Call>& calls) {
  while (theirs.number.load(std::memory_order_acquire) != number) ::sched_yield();
  for (size_t i = 0; i < theirs.parts; ++i) {
    const Part& p = theirs.part[i];
    calls.push_back({p.name, 0, 0, p.bytes, p.peer, rank, p.value, nullptr, nullptr, theirs.gbps});
  }
}

// The calls of other processes beside our own: of collectives all, of messages those with us.
std::vector<Call> with_others(const std::vector<Call>& mine, ModelCommunicator& c) {
  std::vector<Call> calls = mine;
  const auto own = static_cast<size_t>(c.rank);
  const auto ranks = static_cast<size_t>(c.ranks);
  if (mine.front().name != "ncclSend" && mine.front().name != "ncclRecv") {
    const int64_t number = ++c.number;
    post(c.shared->all[number % 2][own], number, mine);
    for (size_t r = 0; r < ranks; ++r)
      if (r != own) await(c.shared->all[number % 2][r], number, static_cast<int>(r), calls);
    return calls;
  }
  for (const bool posting : {true, false})
    for (size_t r = 0; r < ranks; ++r) {
      std::vector<Call> between;
      for (const Call& m : mine)
        if (r != own && m.peer == static_cast<int>(r)) between.push_back(m);
      if (between.empty()) continue;
      if (posting) {
        ++c.messages[r];
        post(c.shared->pairs[c.messages[r] % 2][own][r], c.messages[r], between);
      } else {
        await(c.shared->pairs[c.messages[r] % 2][r][own], c.messages[r], static_cast<int>(r), calls);
      }
    }
  return calls;
}

int add(const char* name, uint64_t from, uint64_t to, uint64_t bytes, int peer, ModelCommunicator* c, void* stream) {
  if (const int failed = model_enter(name)) return failed;
  const double gbps = model_setting("nccl", c->shared ? c->rank : model_stream_device(stream), 400);
  group.push_back({name, from, to, bytes, peer, c->rank, from ? model_byte(from) : 0, c, stream, gbps});
  return 0;
}

Shared* shared_of(const char* path) {
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* at = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  return at == MAP_FAILED ? nullptr : static_cast<Shared*>(at);
}

// "communicators=FILE": how many are left open at the end.
__attribute__((destructor)) void say_what_is_open() {
  if (const char* path = model_text("communicators"))
    if (FILE* file = std::fopen(std::string(path, std::strcspn(path, ",")).c_str(), "w")) {
      std::fprintf(file, "%lld\n", static_cast<long long>(open_communicators));
      std::fclose(file);
    }
}

}  // namespace

MODEL_EXPORT const char* ncclGetErrorString(int code) {
  return code == kInvalidUsage ? "invalid usage" : code == kSystemError ? "unhandled system error" : "simulated error";
}
MODEL_EXPORT int ncclGetVersion(int* version) { return *version = 22803, 0; }
MODEL_EXPORT int ncclCommInitAll(ModelCommunicator** communicators, int count, const int*) {
  if (const int failed = model_enter("ncclCommInitAll")) return failed;
  static std::deque<ModelCommunicator> all;
  for (int i = 0; i < count; ++i) communicators[i] = &all.emplace_back(ModelCommunicator{i, count});
  open_communicators += count;
  return 0;
}
MODEL_EXPORT int ncclGetUniqueId(Id* id) {
  if (const int failed = model_enter("ncclGetUniqueId")) return failed;
  std::memset(id, 0, sizeof *id);
  const char* folder = std::getenv("TMPDIR");
  std::snprintf(id->path, sizeof id->path, "%s/nccl-model-XXXXXX", folder ? folder : "/tmp");
  const int fd = ::mkostemp(id->path, O_CLOEXEC);
  if (fd < 0) return kSystemError;
  const bool sized = ::ftruncate(fd, sizeof(Shared)) == 0;
  ::close(fd);
  return sized ? 0 : kSystemError;
}
MODEL_EXPORT int ncclCommInitRank(ModelCommunicator** communicator, int ranks, Id id, int rank) {
  if (const int failed = model_enter("ncclCommInitRank")) return failed;
  static std::deque<ModelCommunicator> all;
  if (static_cast<size_t>(ranks) > kMaxRanks) return kInvalidUsage;
  Shared* shared = shared_of(id.path);
  if (!shared) return kSystemError;
  ModelCommunicator& c = all.emplace_back(ModelCommunicator{rank, ranks, shared});
  // All have it open: its name is not needed any more.
  void* none = nullptr;
  with_others({{"ncclCommInitRank", 0, 0, 0, 0, rank, 0, &c, none, 0}}, c);
  if (rank == 0) ::unlink(id.path);
  ++open_communicators;
  return *communicator = &c, 0;
}
MODEL_EXPORT int ncclCommDestroy(ModelCommunicator*) { return --open_communicators, 0; }
MODEL_EXPORT int ncclGroupStart() { return group.clear(), 0; }
MODEL_EXPORT int ncclGroupEnd() {
  if (const int failed = model_enter("ncclGroupEnd")) return failed;
  model_pass(model_setting("launch_ns", -1, 2000));
  if (group.empty()) return 0;
  ModelCommunicator& c = *group.front().communicator;
  return collective(c.shared ? with_others(group, c) : group, static_cast<size_t>(c.ranks));
}
MODEL_EXPORT int ncclAllReduce(uint64_t from, uint64_t to, size_t count, int, int, ModelCommunicator* rank,
                               void* stream) {
  return add("ncclAllReduce", from, to, count * kElement, 0, rank, stream);
}
MODEL_EXPORT int ncclAllGather(uint64_t from, uint64_t to, size_t count, int, ModelCommunicator* rank, void* stream) {
  return add("ncclAllGather", from, to, count * kElement * static_cast<uint64_t>(rank->ranks), 0, rank, stream);
}
MODEL_EXPORT int ncclReduceScatter(uint64_t from, uint64_t to, size_t count, int, int, ModelCommunicator* rank,
                                   void* stream) {
  return add("ncclReduceScatter", from, to, count * kElement * static_cast<uint64_t>(rank->ranks), 0, rank, stream);
}
MODEL_EXPORT int ncclBroadcast(uint64_t from, uint64_t to, size_t count, int, int root, ModelCommunicator* rank,
                               void* stream) {
  return add("ncclBroadcast", from, to, count * kElement, root, rank, stream);
}
MODEL_EXPORT int ncclReduce(uint64_t from, uint64_t to, size_t count, int, int, int root, ModelCommunicator* rank,
                            void* stream) {
  return add("ncclReduce", from, to, count * kElement, root, rank, stream);
}
MODEL_EXPORT int ncclSend(uint64_t from, size_t count, int, int peer, ModelCommunicator* rank, void* stream) {
  return add("ncclSend", from, 0, count * kElement, peer, rank, stream);
}
MODEL_EXPORT int ncclRecv(uint64_t to, size_t count, int, int peer, ModelCommunicator* rank, void* stream) {
  return add("ncclRecv", 0, to, count * kElement, peer, rank, stream);
}
