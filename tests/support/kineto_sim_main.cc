// kineto-sim: writes simulated Kineto traces and the truth beside them.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#ifdef PROFGPU_SIM_HAS_ZLIB
#include <zlib.h>
#endif

#include "tests/support/sim_arguments.h"
#include "tests/support/sim_samples.h"

namespace profgpu::sim {
namespace {

/// One output file, compressed if its name ends in .gz.
class File {
 public:
  explicit File(const std::string& path) {
    const bool gz = path.size() > 3 && path.compare(path.size() - 3, 3, ".gz") == 0;
#ifdef PROFGPU_SIM_HAS_ZLIB
    if (gz) gz_ = gzopen(path.c_str(), "wb6");
    else plain_ = std::fopen(path.c_str(), "wb");
#else
    if (!gz) plain_ = std::fopen(path.c_str(), "wb");
#endif
  }
  File(const File&) = delete;
  ~File() { close(); }
  bool write(std::string_view text) {
#ifdef PROFGPU_SIM_HAS_ZLIB
    if (gz_ != nullptr)
      return gzwrite(gz_, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size());
#endif
    return plain_ != nullptr && std::fwrite(text.data(), 1, text.size(), plain_) == text.size();
  }
  bool close() {
    bool good = true;
#ifdef PROFGPU_SIM_HAS_ZLIB
    if (gz_ != nullptr) good = gzclose(gz_) == Z_OK;
    gz_ = nullptr;
#endif
    if (plain_ != nullptr) good = std::fclose(plain_) == 0;
    plain_ = nullptr;
    return good;
  }

 private:
  std::FILE* plain_ = nullptr;
#ifdef PROFGPU_SIM_HAS_ZLIB
  gzFile gz_ = nullptr;
#endif
};

int64_t text_bytes(SimOptions options, const KinetoStyle& style, int steps) {
  options.steps = steps;
  options.windows = 1;
  int64_t bytes = 0;
  // Rank 0 comes first, and is all that is asked for.
  (void)simulate_each(options, 1, [&](const RankTrace& trace) {
    write_kineto(trace, style,
                 [&](std::string_view piece) { return bytes += static_cast<int64_t>(piece.size()), true; });
    return false;
  });
  return bytes;
}

/// Text grows by the same amount with every step after the first.
void aim(SimArguments& a) {
  const int64_t two = text_bytes(a.sim, a.style, 2), six = text_bytes(a.sim, a.style, 6);
  const int64_t per_step = std::max<int64_t>((six - two) / 4, 1);
  a.sim.steps = static_cast<int>(std::max<int64_t>(1, (a.target_bytes - two + per_step / 2) / per_step + 2));
}

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// What is written of a job, rank by rank, from several threads.
class JobFiles {
 public:
  explicit JobFiles(const SimArguments& a)
      : a_(a), folder_((a.sim.ranks > 1 && a.only_rank < 0) || a.sim.windows > 1) {}

  Status write() {
    std::error_code failed;
    if (folder_) std::filesystem::create_directories(a_.out, failed);
    if (failed) return Error{a_.out + ": " + failed.message()};
    if (Status s = simulate_job(a_.sim, [](int) { return true; }); !s) return s;
    if (!a_.damage.of_another_run.empty()) {
      SimOptions other = a_.sim;
      other.seed += 1000;
      other.first_step += 1000;
      other_run_ = true;
      if (Status s = simulate_job(other, [&](int rank) { return contains(a_.damage.of_another_run, rank); }); !s)
        return s;
    }
    std::sort(truth_.begin(), truth_.end(), [](const TraceTruth& x, const TraceTruth& y) {
      return std::pair(x.steps.rank, x.steps.window) < std::pair(y.steps.rank, y.steps.window);
    });
    if (const bool clocks = std::any_of(a_.sim.faults.begin(), a_.sim.faults.end(),
                                        [](const FaultUse& f) { return f.name == "straggler-clocks"; });
        clocks || a_.samples) {
      for (const SampleText& s : sample_texts(a_.sim, truth_))
        if (Status written = write_text(stem() + ".samples" + (s.host.empty() ? "" : "-" + s.host) + ".jsonl", s.text);
            !written)
          return written;
    }
    if (!a_.truth) return ok();
    return write_text(stem() + ".truth.json", truth_json(a_.sim, make_truth(a_.sim, truth_)));
  }

 private:
  template <class Wanted>
  Status simulate_job(const SimOptions& options, Wanted&& wanted) {
    const int threads =
        a_.threads > 0 ? a_.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const Status status =
        simulate_each(options, threads, [&](const RankTrace& t) { return !wanted(t.rank) || take(t); });
    if (!failure_.empty()) return Error{failure_ + ": cannot be written"};
    return status;
  }

  bool take(const RankTrace& t) {
    if (!other_run_) {
      TraceTruth truth = trace_truth(t, a_.style);
      const std::lock_guard lock(mutex_);
      truth_.push_back(std::move(truth));
    }
    if ((a_.only_rank >= 0 && t.rank != a_.only_rank) || contains(a_.damage.missing, t.rank)) return true;
    if (!other_run_ && contains(a_.damage.of_another_run, t.rank)) return true;
    std::string name = a_.out;
    if (folder_)
      name += "/rank-" + std::to_string(t.rank) + (a_.sim.windows > 1 ? ".window-" + std::to_string(t.window) : "");
    if (!write_trace(t, folder_ ? name + ".json" : name)) return false;
    return !contains(a_.damage.doubled, t.rank) || write_trace(t, name + ".copy.json");
  }

  bool write_trace(const RankTrace& t, const std::string& path) {
    constexpr int64_t kHourNs = 3'600'000'000'000;
    KinetoStyle style = a_.style;
    if (other_run_) style.time_shift_ns += kHourNs;
    int64_t left = INT64_MAX;
    for (const auto& [rank, percent] : a_.damage.truncated) {
      if (rank != t.rank) continue;
      left = 0;
      write_kineto(t, style, [&](std::string_view piece) { return left += static_cast<int64_t>(piece.size()), true; });
      left = left * percent / 100;
    }
    File file(path);
    const bool written = write_kineto(t, style, [&](std::string_view piece) {
      const auto part = static_cast<size_t>(std::min<int64_t>(left, static_cast<int64_t>(piece.size())));
      left -= static_cast<int64_t>(part);
      return file.write(piece.substr(0, part));
    });
    if (written && file.close()) return true;
    const std::lock_guard lock(mutex_);
    failure_ = path;
    return false;
  }

  static Status write_text(const std::string& path, const std::string& text) {
    File file(path);
    if (!file.write(text) || !file.close()) return Error{path + ": cannot be written"};
    return ok();
  }

  /// Outside the folder: whoever reads a folder of traces should find traces in it.
  [[nodiscard]] std::string stem() const {
    std::string stem = a_.out;
    for (const std::string_view end : {".gz", ".json"})
      if (stem.size() > end.size() && stem.ends_with(end)) stem.resize(stem.size() - end.size());
    while (folder_ && stem.size() > 1 && stem.back() == '/') stem.pop_back();
    return stem;
  }

  const SimArguments& a_;
  const bool folder_;
  bool other_run_ = false;
  std::mutex mutex_;   // of what follows
  std::string failure_;
  std::vector<TraceTruth> truth_;
};

void list_faults() {
  for (const Fault& f : faults()) {
    std::string rules;
    for (const char* r : f.expected) rules += (rules.empty() ? "" : ", ") + std::string(r);
    std::printf("%-26s %s\n%-26s   must fire: %s%s\n", f.name, f.summary, "", rules.empty() ? "nothing" : rules.c_str(),
                f.min_ranks > 1 ? "; several ranks" : "");
  }
}

int complain(const Error& e, int code) {
  std::fprintf(stderr, "kineto-sim: %s\n", e.message.c_str());
  if (!e.hint.empty()) std::fprintf(stderr, "  hint: %s\n", e.hint.c_str());
  return code;
}

}  // namespace
}  // namespace profgpu::sim

int main(int argc, char** argv) {
  using namespace profgpu::sim;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0) return std::fputs(kSimHelp, stdout), 0;
    if (std::strcmp(argv[i], "--list-faults") == 0) return list_faults(), 0;
  }
  auto arguments = parse_arguments(argc, argv);
  if (!arguments) return complain(arguments.error(), 2);
  if (arguments->target_bytes > 0) aim(*arguments);
  if (arguments->excess_pct > 0) {
    const auto severity = severity_for(arguments->sim, arguments->excess_pct);
    if (!severity) return complain(severity.error(), 1);
    arguments->sim.faults[0].severity = *severity;
  }
  if (profgpu::Status s = JobFiles(*arguments).write(); !s) return complain(s.error(), 1);
  return 0;
}
