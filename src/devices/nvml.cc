// The NVML backend: NVIDIA devices through the driver's own library.
#include <memory>
#include <utility>

#include "devices/backend.h"
#include "devices/nvml_facts.h"
#include "devices/nvml_inventory.h"
#include "devices/nvml_reader.h"
#include "devices/nvml_xid.h"

namespace profgpu {
namespace {

// Without persistence mode the driver brings each device up anew, which takes seconds.
constexpr int64_t kPatienceNs = 60'000'000'000;

class NvmlBackend : public Backend {
 public:
  NvmlBackend(std::shared_ptr<nvml::Library> library, std::vector<nvml::Found> found)
      : library_(std::move(library)),
        found_(std::move(found)),
        xids_(library_, gpus_of(found_)),
        xids_known_(found_.size()) {
    for (const nvml::Found& f : found_) {
      devices_.push_back(f.info);
      readers_.push_back(f.place.device ? std::make_unique<nvml::Reader>(*library_, f.place) : nullptr);
      if (!readers_.back()) continue;
      for (const auto& [metric, value] : f.info.constants) readers_.back()->calls().note(metric, nvml::kSuccess);
      for (const auto& [metric, code] : f.unknown) readers_.back()->calls().note(metric, code);
    }
  }

  std::string_view name() const override { return "nvml"; }
  const std::vector<DeviceInfo>& devices() const override { return devices_; }

  Status read(const ReadRequest& request, Reading& reading) override {
    xids_.start();
    if (request.everything) xids_.refresh(request.tick_ns);
    add_xids(reading);
    const auto& reader = readers_[reading.device];
    if (!reader) return Error{nvml::words_of(found_[reading.device].broken)};
    return reader->read(request, reading);
  }

  std::string why_absent(uint32_t device, Metric metric) const override {
    if (!readers_[device]) return nvml::words_of(found_[device].broken);
    if (metric == Metric::kXidErrors || metric == Metric::kXidLast) {
      if (found_[device].place.parent) return "not reported for MIG instances";
      const auto seen = xids_.seen(device);
      if (seen.state != nvml::kSuccess) return nvml::words_of(static_cast<nvml::Return>(seen.state));
      return metric == Metric::kXidLast && seen.count == 0 ? "none seen" : "";
    }
    return readers_[device]->why(metric);
  }

  int64_t calls() const override { return library_->calls(); }
  std::vector<Fact> system_facts() override { return nvml::system_facts(*library_); }
  std::vector<Fact> device_facts(uint32_t device) override { return nvml::device_facts(*library_, found_[device]); }
  std::vector<std::vector<Link>> topology() override { return nvml::topology(*library_, found_); }

 private:
  static std::vector<nvml::Device> gpus_of(const std::vector<nvml::Found>& found) {
    std::vector<nvml::Device> out;
    for (const nvml::Found& f : found) out.push_back(f.place.parent ? nullptr : f.place.device);
    return out;
  }

  // Counted since the watch began: 0 is a fact once it has.
  void add_xids(Reading& reading) {
    if (found_[reading.device].place.parent) return;
    auto& [version, seen] = xids_known_[reading.device];
    const uint32_t now = xids_.version();
    const auto events = now == version ? std::vector<nvml::XidWatch::Event>()
                                       : xids_.take_events(reading.device);  // first, so that the count has all of them
    if (now != version) seen = xids_.seen(reading.device), version = now;
    if (seen.state != nvml::kSuccess) return;
    reading.add(Metric::kXidErrors, static_cast<double>(seen.count));
    for (const auto& e : events) reading.add(Metric::kXidLast, static_cast<double>(e.code), e.time_ns);
    if (events.empty() && seen.count > 0) reading.add(Metric::kXidLast, static_cast<double>(seen.last), seen.last_ns);
  }

  // In this order, since each uses those before it to its end.
  std::shared_ptr<nvml::Library> library_;
  std::vector<nvml::Found> found_;
  std::vector<DeviceInfo> devices_;
  std::vector<std::unique_ptr<nvml::Reader>> readers_;
  nvml::XidWatch xids_;
  struct XidsKnown {
    uint32_t version = 0;
    nvml::XidWatch::Seen seen;
  };
  std::vector<XidsKnown> xids_known_;   // by device, at the reading before
};

Result<std::unique_ptr<Backend>> open_nvml(const BackendOptions& options) {
  auto inventory = nvml::take_inventory(kPatienceNs, !options.constants_later);
  if (!inventory) return inventory.error();
  return std::unique_ptr<Backend>(
      std::make_unique<NvmlBackend>(std::move(inventory->library), std::move(inventory->devices)));
}

}  // namespace

extern const BackendKind kNvml;
const BackendKind kNvml = {"nvml", "NVIDIA's management library, as the driver brings it (libnvidia-ml.so.1)", true,
                           open_nvml};

}  // namespace profgpu
