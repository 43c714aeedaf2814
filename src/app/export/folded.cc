// Folded stacks: "frame;frame;frame nanoseconds" a line, for flamegraph.pl, inferno and the like.
#include <algorithm>

#include "app/export/run.h"
#include "base/text.h"

namespace profgpu {
namespace {

// A semicolon would end the frame, a line feed the stack.
std::string frame(std::string_view name) {
  std::string out(name);
  replace_invalid_utf8(out);
  for (char& c : out) {
    if (c == ';') c = ':';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  return out.empty() ? "(no name)" : out;
}

/// The stacks of one rank, each as a node below the one that called it.
class Stacks {
 public:
  explicit Stacks(const Trace& trace) : trace_(trace), of_host_(trace.host.size()) {
    for (size_t t = 0; t < trace.threads.size(); ++t) {
      nodes_.push_back({kNone, {}, t});   // a thread's own node has its number
      weights_.push_back(0);
    }
    for (uint32_t h = 0; h < trace.host.size(); ++h) {
      const HostId parent = trace.host.parent[h];
      of_host_[h] = below(parent.valid() ? of_host_[parent.value] : trace.host.thread[h].value, trace.host.name[h]);
    }
  }

  void weigh_host() {
    const HostTable& all = trace_.host;
    std::vector<int64_t> inside(all.size());
    for (uint32_t h = 0; h < all.size(); ++h)
      if (all.parent[h].valid()) inside[all.parent[h].value] += all.duration_ns[h];
    // Rows that overlap without one holding the other may take more than their parent has.
    for (uint32_t h = 0; h < all.size(); ++h)
      weights_[of_host_[h]] += std::max<int64_t>(all.duration_ns[h] - inside[h], 0);
  }
  void weigh_activity() {
    const ActivityTable& all = trace_.activity;
    for (uint32_t a = 0; a < all.size(); ++a) {
      const uint32_t caller = all.launch[a].valid() ? of_host_[all.launch[a].value] : nowhere();
      weights_[below(caller, all.name[a])] += all.duration_ns[a];
    }
  }

  void write(const std::string& prefix, ByteWriter& out) const {
    std::vector<std::string> texts(trace_.strings.size());
    std::string line;
    for (uint32_t n = 0; n < nodes_.size() && out.error() == 0; ++n) {
      if (weights_[n] <= 0) continue;
      line.clear();
      append(n, texts, line);
      out.put(prefix).put(line).put(' ').put_number(weights_[n]).put('\n');
    }
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Node {
    uint32_t caller;
    StringId name;
    size_t thread;   ///< of a thread's own node; beyond them: where no launch was recorded
  };

  uint32_t below(uint32_t caller, StringId name) {
    const auto [at, fresh] =
        known_.try_emplace(uint64_t{caller} << 32 | name.value, static_cast<uint32_t>(nodes_.size()));
    if (fresh) nodes_.push_back({caller, name, 0}), weights_.push_back(0);
    return at->second;
  }
  uint32_t nowhere() {
    if (nowhere_ == kNone) {
      nowhere_ = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({kNone, {}, trace_.threads.size()}), weights_.push_back(0);
    }
    return nowhere_;
  }
  void append(uint32_t node, std::vector<std::string>& texts, std::string& line) const {
    std::vector<uint32_t> path;
    for (; node != kNone; node = nodes_[node].caller) path.push_back(node);
    for (auto n = path.rbegin(); n != path.rend(); ++n) {
      if (!line.empty()) line += ';';
      const Node& at = nodes_[*n];
      if (at.name.valid()) {
        std::string& text = texts[at.name.value];
        if (text.empty()) text = frame(trace_.strings[at.name]);
        line += text;
      } else if (at.thread < trace_.threads.size()) {
        const Thread& thread = trace_.threads[at.thread];
        line += frame(thread.name.empty() ? "thread " + thread.id : thread.name);
      } else {
        line += "(launch not recorded)";
      }
    }
  }

  const Trace& trace_;
  std::vector<Node> nodes_;
  std::vector<int64_t> weights_;
  std::vector<uint32_t> of_host_;
  std::unordered_map<uint64_t, uint32_t> known_;
  uint32_t nowhere_ = kNone;
};

Status write_folded(const RunRows& run, const ExportOptions& options, ByteWriter& out) {
  if (run.ranks.empty()) return only_samples("folded");
  return run.each_rank([&](const RankRows& rank) {
    Stacks stacks(rank.trace());
    if (options.weight == Weight::kHost) stacks.weigh_host();
    else stacks.weigh_activity();
    stacks.write(run.ranks.size() > 1 ? "rank " + std::to_string(rank.rank()) + ";" : "", out);
  });
}

}  // namespace

extern const Exporter kFoldedExport{
    .name = "folded",
    .summary = "folded stacks with their own time in nanoseconds, for flame graphs",
    .reader = "flamegraph.pl, inferno, speedscope",
    .extension = ".folded",
    .write = write_folded,
};

}  // namespace profgpu
