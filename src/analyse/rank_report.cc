#include "analyse/rank_report.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "analyse/replay.h"

namespace profgpu {
namespace {

// Analyses are reported as they are; rows and what may be missing make themselves.
template <class T>
T made(const Facts& facts) {
  if constexpr (requires { T::value_type::rows(facts); }) return T::value_type::rows(facts);
  else if constexpr (requires { T::value_type::compute(facts); }) return T::value_type::compute(facts);
  else return facts.get<T>();
}

template <auto kMember>
constexpr Section section(std::string_view name, std::string_view title, std::string_view summary) {
  return {name, title, summary,
          [](const Facts& facts, RankReport& rank) {
            rank.*kMember = made<std::remove_reference_t<decltype(rank.*kMember)>>(facts);
          },
          [](const RankReport& rank) { return value_of(rank.*kMember); }};
}

constexpr Section kSections[] = {
    section<&RankReport::devices>("devices", "Devices", "time on each device: busy, idle, by kind of work"),
    section<&RankReport::steps>("steps", "Steps", "every step, with its device time"),
    section<&RankReport::phases>("phases", "Phases", "wall time of all steps by phase of training"),
    section<&RankReport::average_step>("average_step", "Average step", "the mean of the measured steps, by phase"),
    section<&RankReport::idle>("idle", "Idle time by cause", "every gap on a device has one cause"),
    section<&RankReport::kernels>("kernels", "Kernels", "kernels, copies and sets by device and name"),
    section<&RankReport::ops>("ops", "Ops", "operators as PyTorch's key_averages counts them"),
    section<&RankReport::launch>("launch", "Launches", "cost and latency of launches"),
    section<&RankReport::collectives>("collectives", "Collectives", "collectives by name, type, group and size"),
    section<&RankReport::memory>("memory", "Memory", "device memory as the framework's allocator saw it"),
    section<&RankReport::measured>("measured", "Measured steps", "what the measured steps are made of, for `profgpu diff`"),
    section<&RankReport::threads>("threads", "Threads",
                                  "processor time of each thread, how long it was blocked, and in which system calls"),
};

}  // namespace

std::span<const Section> sections() { return kSections; }

const Section* find_section(std::string_view name) {
  const Section* found = std::find_if(std::begin(kSections), std::end(kSections), [&](const Section& s) { return s.name == name; });
  return found != std::end(kSections) ? found : nullptr;
}

const DeviceRow* RankReport::busiest() const {
  const auto by_share = [](const DeviceRow& a, const DeviceRow& b) { return a.utilization_pct() < b.utilization_pct(); };
  return devices.empty() ? nullptr : &*std::max_element(devices.begin(), devices.end(), by_share);
}

RankReport rank_report(const RankFacts& rank) {
  const Facts& facts = *rank.facts;
  RankReport report;
  report.rank = rank.rank;
  report.world_size = facts.trace().distributed.world_size;
  report.host = facts.trace().host_name;
  for (const DeviceTime& d : facts.get<Devices>().devices)
    if (!d.name.empty() && std::find(report.device_names.begin(), report.device_names.end(), d.name) == report.device_names.end())
      report.device_names.push_back(d.name);
  std::atomic<size_t> taken{0};
  std::thread other([&] {
    for (size_t i = std::size(kSections); taken++ < std::size(kSections);) kSections[--i].make(facts, report);
  });
  for (size_t i = 0; taken++ < std::size(kSections); ++i) kSections[i].make(facts, report);
  // Rules ask for it as soon as the last section is there.
  facts.get<Replay>();
  other.join();
  return report;
}

}  // namespace profgpu
