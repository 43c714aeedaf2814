#include "analyse/rules/host_work.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyse/rank/frameworks.h"
#include "analyse/rank/places.h"
#include "analyse/report/quantity.h"

namespace profgpu {
namespace {

constexpr int64_t kPythonGap_ns = 100'000;   // Python takes less from one operator to the next

// From its start until the launch that ends it.
Interval wait_of(const Trace& trace, const Gap& gap) {
  const int64_t launch = gap.launch.valid() ? trace.host.start_ns[gap.launch.value] : gap.end_ns;
  return {gap.start_ns, std::max(gap.start_ns, std::min(launch, gap.end_ns))};
}

}  // namespace

GapThreads::GapThreads(const Measured& measured)
    : trace_(measured.trace()), steps_(measured.facts().get<Steps>().thread) {}

const Intervals& GapThreads::recorded(ThreadId thread) {
  const auto [time, added] = recorded_.try_emplace(thread);
  if (!added) return time->second;
  Intervals all;
  for (HostId i = trace_.threads[thread.value].begin; i < trace_.threads[thread.value].end; ++i)
    if (trace_.host.kind[i.value] != HostKind::kAnnotation) all.push_back(trace_.host.interval(i));
  return time->second = merged(std::move(all));
}

ThreadId GapThreads::operator()(const Gap& gap) {
  if (!gap.launch.valid()) return steps_;
  const ThreadId launching = trace_.host.thread[gap.launch.value];
  if (launching == steps_ || !steps_.valid()) return launching;
  const Interval wait = wait_of(trace_, gap);
  return 2 * overlap_length(recorded(launching), wait) < overlap_length(recorded(steps_), wait) ? steps_ : launching;
}

std::vector<Place> find_places_in_gaps(const Measured& measured, IdleCause cause) {
  const Trace& trace = measured.trace();
  const Intervals& others = measured.host_time_of_other_rules();
  GapThreads threads(measured);
  Places places(measured.facts());
  for (const Gap& gap : measured.gaps()) {
    if (!measured.counts(gap, cause)) continue;
    const ThreadId thread = threads(gap);
    const bool launches = gap.launch.valid() && trace.host.thread[gap.launch.value] == thread;
    // A launch that takes long counts, too.
    const int64_t until = launches ? std::min(trace.host.end_ns(gap.launch), gap.end_ns) : wait_of(trace, gap).end;
    if (!thread.valid() || until <= gap.start_ns) continue;
    const Interval whole{gap.start_ns, until};
    if (overlap_length(others, whole) == 0) places.add_host_time(thread, whole);
    else
      for (const Interval& part : subtract({whole}, others)) places.add_host_time(thread, part);
  }
  // What explains almost nothing of the time is not its place.
  std::vector<Place> most = places.most_expensive();
  const int64_t least = measured.idle_ns(cause) / 20;
  std::erase_if(most, [&](const Place& place) { return place.ns < least; });
  return most;
}

const Place* main_place(const std::vector<Place>& places, int64_t idle_ns) {
  if (places.empty()) return nullptr;
  const Place& first = places.front();
  return (!first.file.empty() || first.is_range) && 4 * first.ns >= idle_ns ? &first : nullptr;
}

bool prepares_inputs(const Place& place) {
  constexpr std::string_view kParts[] = {
      "__getitem__", "__next__", "audio", "augment", "collate", "data_loader", "dataloader", "datasets/",
      "feature_extraction", "ffcv/", "get_batch", "get_data", "h5py/", "image", "input_pipeline", "load_batch",
      "load_data", "next(iter)", "normalize", "nvidia/dali", "PIL", "prepare_batch", "prepare_inputs", "preprocess",
      "processing_", "processor", "resize", "streaming/", "tfrecord", "token", "transforms", "video",
      "wait_for_batch", "webdataset"};
  return contains_any(place.file, kParts) || contains_any(place.name, kParts) || (place.is_range && place.name == "data");
}

bool saves_checkpoint(const Place& place) {
  constexpr std::string_view kFiles[] = {"torch/serialization.py", "safetensors/", "torch/distributed/checkpoint/"};
  constexpr std::string_view kNames[] = {"save_checkpoint", "save_pretrained", "save_file", "save_model", "save_state"};
  const bool in_file = contains_any(place.file, kFiles) && !contains(place.name, "load");
  return in_file || contains_any(place.name, kNames);
}

const SystemWait* system_wait(const Place& place) {
  static constexpr SystemWait kSleep = {"sleep", "wait for the event itself instead of sleeping"};
  static constexpr SystemWait kInput = {
      "input", "read ahead on another thread, so that the launching thread never waits for a file or a pipe"};
  static constexpr SystemWait kOutput = {
      "output", "write on another thread, so that the launching thread never waits for a file or a pipe"};
  static constexpr SystemWait kThread = {
      "another thread", "launch what does not need that thread's result before the wait, or let that thread launch"};
  static constexpr SystemWait kOthers = {
      "the network or another process", "fetch ahead on another thread, so that the launching thread never waits for others"};
  static constexpr std::pair<std::string_view, const SystemWait*> kCalls[] = {
      {"nanosleep", &kSleep}, {"clock_nanosleep", &kSleep}, {"usleep", &kSleep}, {"sleep", &kSleep},
      {"read", &kInput}, {"pread", &kInput}, {"pread64", &kInput}, {"readv", &kInput}, {"fread", &kInput},
      {"open", &kInput}, {"open64", &kInput}, {"openat", &kInput}, {"fopen", &kInput}, {"fopen64", &kInput},
      {"write", &kOutput}, {"pwrite", &kOutput}, {"pwrite64", &kOutput}, {"writev", &kOutput}, {"fwrite", &kOutput},
      {"fsync", &kOutput}, {"fdatasync", &kOutput}, {"fflush", &kOutput}, {"fclose", &kOutput},
      {"pthread_cond_wait", &kThread}, {"pthread_cond_timedwait", &kThread}, {"pthread_mutex_lock", &kThread},
      {"pthread_join", &kThread}, {"pthread_rwlock_rdlock", &kThread}, {"pthread_rwlock_wrlock", &kThread},
      {"sem_wait", &kThread}, {"sem_timedwait", &kThread},
      {"poll", &kOthers}, {"ppoll", &kOthers}, {"select", &kOthers}, {"pselect", &kOthers}, {"epoll_wait", &kOthers},
      {"epoll_pwait", &kOthers}, {"recv", &kOthers}, {"recvfrom", &kOthers}, {"recvmsg", &kOthers}, {"send", &kOthers},
      {"sendmsg", &kOthers}, {"sendto", &kOthers}, {"connect", &kOthers}, {"accept", &kOthers}, {"accept4", &kOthers},
      {"waitpid", &kOthers}, {"wait4", &kOthers}};
  if (!place.is_range || !place.file.empty()) return nullptr;
  const auto* found = std::ranges::find(kCalls, place.name, &std::pair<std::string_view, const SystemWait*>::first);
  return found != std::end(kCalls) ? found->second : nullptr;
}

bool awaits_ranks(const Place& place) {
  constexpr std::string_view kNames[] = {"barrier", "monitored_barrier", "all_reduce", "all_gather", "broadcast",
                                         "all_gather_object", "broadcast_object_list", "gather_object", "wait"};
  return contains(place.file, "torch/distributed/") && !contains(place.file, "checkpoint/") &&
         std::ranges::count(kNames, place.name) > 0;
}

std::vector<std::string> library_fixes(const Measured& measured, const Place& place, IdleCause cause) {
  Intervals gaps;
  for (const Gap& gap : measured.gaps())
    if (measured.counts(gap, cause)) gaps.push_back(gap.time());
  const std::optional<Place> caller = Places(measured.facts()).caller_of(place, merged(std::move(gaps)));
  const std::string library(library_of(place.file));
  const std::string called = caller ? fmt::format(", which {} calls", place_text(*caller)) : "";
  return {fmt::format("{} is part of {}{}: call it less often", place.name, library, called),
          fmt::format("turn off what needs it ({}) if the program can do without; otherwise try another version of {}",
                      place.file, library)};
}

void add_slow_recording(const Measured& measured, Finding& finding) {
  const Trace& trace = measured.trace();
  if (trace.recorder != Recorder::kPyTorch || !has_python_frames(trace)) return;
  const bool allocations = !trace.memory.empty();   // alone they cost the host little
  finding.cost_is_most = true;
  finding.evidence.push_back(fmt::format("Python stacks {}were recorded, which slows the host: without with_stack=True{} the "
                                         "GPU waits less",
                                         allocations ? "and allocations " : "",
                                         allocations ? " and profile_memory=True" : ""));
}

std::string part_text(const Place& place, int64_t idle_ns) {
  if (2 * place.ns >= idle_ns) return "mostly";
  return fmt::format("{} of it", format_percent(percent_of(place.ns, idle_ns), 0));
}

bool has_long_gaps(const Measured& measured, IdleCause cause) {
  constexpr int64_t kLongGap_ns = 1'000'000;
  int64_t all_ns = 0, long_ns = 0;
  for (const Gap& gap : measured.gaps()) {
    if (!measured.counts(gap, cause)) continue;
    all_ns += gap.length();
    if (gap.length() >= kLongGap_ns) long_ns += gap.length();
  }
  return 2 * long_ns > all_ns;
}

UnrecordedWork unrecorded_work(const Measured& measured, IdleCause cause) {
  GapThreads threads(measured);
  UnrecordedWork work;
  for (const Gap& gap : measured.gaps()) {
    if (!measured.counts(gap, cause)) continue;
    work.gaps_ns += gap.length();
    if (gap.length() < kPythonGap_ns || !gap.launch.valid()) continue;
    const Interval wait = wait_of(measured.trace(), gap);
    work.ns += wait.length() - overlap_length(threads.recorded(threads(gap)), wait);
  }
  return work;
}

}  // namespace profgpu
