// A stand-in for libnccl.so.2: collectives of one process take as long as the scenario's rates say, and move bytes.
// README.md says how it is driven.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "model.h"

namespace {

constexpr int kInvalidUsage = 5;
constexpr uint64_t kElement = 4;   // INT32 is all that is used

struct ModelCommunicator {
  int rank, ranks;
};

struct Call {
  std::string name;
  uint64_t from, to, bytes;
  int peer;
  ModelCommunicator* rank;
  void* stream;
};
std::vector<Call> group;

int sum_at(const std::vector<Call>& calls, uint64_t offset) {
  int sum = 0;
  for (const Call& c : calls) sum += model_byte(c.from + offset);
  return sum;
}

// What one rank's memory holds afterwards; all calls are of one kind, in order of ranks.
void move_bytes(const std::vector<Call>& calls, const Call& c) {
  const uint64_t ranks = calls.size();
  if (c.name == "ncclAllReduce") model_fill(c.to, c.bytes, sum_at(calls, 0));
  if (c.name == "ncclReduce" && c.rank->rank == c.peer) model_fill(c.to, c.bytes, sum_at(calls, 0));
  if (c.name == "ncclReduceScatter") model_fill(c.to, c.bytes / ranks, sum_at(calls, 0));
  if (c.name == "ncclBroadcast") model_fill(c.to, c.bytes, model_byte(calls[static_cast<size_t>(c.peer)].from));
  if (c.name == "ncclAllGather")
    for (uint64_t r = 0; r < ranks; ++r)
      model_fill(c.to + r * c.bytes / ranks, c.bytes / ranks, model_byte(calls[r].from));
}

double factor_of(const std::string& name, double ranks) {
  if (name == "ncclAllReduce") return 2 * (ranks - 1) / ranks;
  return name == "ncclAllGather" || name == "ncclReduceScatter" ? (ranks - 1) / ranks : 1;
}

double slowest(const std::vector<Call>& calls) {
  double gbps = 1e18;
  for (const Call& c : calls) gbps = std::min(gbps, model_setting("nccl", model_stream_device(c.stream), 400));
  return gbps;
}

int run_on_all(const std::vector<Call>& calls, double ns) {
  std::vector<void*> streams;
  for (const Call& c : calls)
    if (std::find(streams.begin(), streams.end(), c.stream) == streams.end()) streams.push_back(c.stream);
  for (void* stream : streams)
    if (const int failed = model_work(stream, ns)) return failed;
  return 0;
}

// Bytes to other ranks count, as in nccl-tests: what a rank keeps to itself is no traffic.
int messages(const std::vector<Call>& calls) {
  uint64_t most = 0;
  for (const Call& s : calls) {
    if (s.name != "ncclSend") continue;
    uint64_t out = 0;
    for (const Call& other : calls)
      if (other.name == "ncclSend" && other.rank == s.rank && other.peer != other.rank->rank) out += other.bytes;
    most = std::max(most, out);
    // The receives of this sender, in order: its n-th send to a peer meets the peer's n-th receive from it.
    for (const Call& r : calls)
      if (r.name == "ncclRecv" && r.rank->rank == s.peer && r.peer == s.rank->rank)
        model_fill(r.to, r.bytes, model_byte(s.from));
  }
  return run_on_all(calls, model_setting("nccl_ns", -1, 10'000) + static_cast<double>(most) / slowest(calls));
}

int collective(std::vector<Call> calls) {
  const std::string& name = calls.front().name;
  if (name == "ncclSend" || name == "ncclRecv") return messages(calls);
  if (calls.size() != static_cast<size_t>(calls.front().rank->ranks)) return kInvalidUsage;   // a rank is missing: it would hang
  for (const Call& c : calls)
    if (c.name != name || c.bytes != calls.front().bytes) return kInvalidUsage;
  std::sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) { return a.rank->rank < b.rank->rank; });
  for (const Call& c : calls) move_bytes(calls, c);
  const char* model = std::getenv("CUDA_MODEL");
  if (model && std::strstr(model, "wrong=1")) model_fill(calls.back().to, 4, 99);
  const double traffic = factor_of(name, static_cast<double>(calls.size())) * static_cast<double>(calls.front().bytes);
  return run_on_all(calls, model_setting("nccl_ns", -1, 10'000) + traffic / slowest(calls));
}

int add(const char* name, uint64_t from, uint64_t to, uint64_t bytes, int peer, ModelCommunicator* rank, void* stream) {
  if (const int failed = model_enter(name)) return failed;
  group.push_back({name, from, to, bytes, peer, rank, stream});
  return 0;
}

}  // namespace

MODEL_EXPORT const char* ncclGetErrorString(int code) {
  return code == kInvalidUsage ? "invalid usage" : "simulated error";
}
MODEL_EXPORT int ncclGetVersion(int* version) { return *version = 22803, 0; }
MODEL_EXPORT int ncclCommInitAll(ModelCommunicator** communicators, int count, const int*) {
  if (const int failed = model_enter("ncclCommInitAll")) return failed;
  static std::deque<ModelCommunicator> all;
  for (int i = 0; i < count; ++i) communicators[i] = &all.emplace_back(ModelCommunicator{i, count});
  return 0;
}
MODEL_EXPORT int ncclCommDestroy(ModelCommunicator*) { return 0; }
MODEL_EXPORT int ncclGroupStart() { return group.clear(), 0; }
MODEL_EXPORT int ncclGroupEnd() {
  if (const int failed = model_enter("ncclGroupEnd")) return failed;
  model_pass(model_setting("launch_ns", -1, 2000));
  return group.empty() ? 0 : collective(group);
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
