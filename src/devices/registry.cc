// Every backend, in the order that `auto` tries them.

#include "base/text.h"
#include "devices/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace profgpu {

extern const BackendKind kNvml, kNvidiaSmi, kAmdgpu, kIntel, kReplay;

const std::vector<const BackendKind*>& backend_kinds() {
  static const std::vector<const BackendKind*> kAll = {&kNvml, &kNvidiaSmi, &kAmdgpu, &kIntel, &kReplay};
  return kAll;
}

namespace {

std::string names() {
  std::string out = "auto, none";
  for (const BackendKind* k : backend_kinds()) out += fmt::format(", {}{}", k->name, k->automatic ? "" : ":FILE");
  return out;
}

Opened open_automatically(const BackendOptions& options) {
  Opened opened;
  std::vector<std::unique_ptr<Backend>> found;
  const auto has_nvidia = [&] {
    return std::any_of(found.begin(), found.end(),
                       [](const auto& b) { return b->devices().front().vendor == "NVIDIA"; });
  };
  for (const BackendKind* kind : backend_kinds()) {
    // nvidia-smi asks the same driver as NVML, at a higher price.
    if (!kind->automatic || (kind == &kNvidiaSmi && has_nvidia())) continue;
    auto backend = kind->open(options);
    if (backend && !(*backend)->devices().empty()) found.push_back(std::move(*backend));
    else opened.tried.push_back({kind->name, backend ? Error{"found no device"} : backend.error()});
  }
  if (!found.empty()) opened.backend = composite_backend(std::move(found));
  return opened;
}

}  // namespace

namespace {

Result<const BackendKind*> named_kind(const std::string& spec) {
  const size_t colon = spec.find(':');
  const std::string name = spec.substr(0, colon);
  for (const BackendKind* kind : backend_kinds()) {
    if (name != kind->name) continue;
    if (kind->automatic == (colon != std::string::npos))
      return Error{fmt::format("--backend {} {}", name, kind->automatic ? "takes no argument" : "needs a file"),
                   "backends: " + names()};
    return kind;
  }
  return Error{"there is no backend \"" + name + "\"", "backends: " + names()};
}

}  // namespace

Status check_backend(const std::string& spec) {
  if (spec == "auto" || spec == "none") return ok();
  const auto kind = named_kind(spec);
  return kind ? ok() : Status(kind.error());
}

Result<Opened> open_backend(const std::string& spec, BackendOptions options) {
  if (spec == "auto") return open_automatically(options);
  if (spec == "none") return Opened{};
  const auto kind = named_kind(spec);
  if (!kind) return kind.error();
  if (const size_t colon = spec.find(':'); colon != std::string::npos) options.argument = spec.substr(colon + 1);
  auto backend = (*kind)->open(options);
  if (!backend) return backend.error().within(std::string((*kind)->name));
  return Opened{std::move(*backend), {}};
}

namespace {

class Composite : public Backend {
 public:
  explicit Composite(std::vector<std::unique_ptr<Backend>> parts) : parts_(std::move(parts)) {
    for (auto& part : parts_) {
      const auto first = static_cast<uint32_t>(devices_.size());
      append_listed(name_, part->name(), "+");
      for (DeviceInfo info : part->devices()) {
        if (info.parent) *info.parent += first;
        where_.emplace_back(part.get(), static_cast<uint32_t>(devices_.size()) - first);
        devices_.push_back(std::move(info));
      }
    }
  }

  std::string_view name() const override { return name_; }
  const std::vector<DeviceInfo>& devices() const override { return devices_; }
  Status read(const ReadRequest& request, Reading& reading) override {
    const uint32_t ours = reading.device;
    reading.device = where_[ours].second;
    Status status = where_[ours].first->read(request, reading);
    reading.device = ours;
    return status;
  }
  void set_interval(int64_t interval_ns) override {
    for (auto& part : parts_) part->set_interval(interval_ns);
  }
  std::string why_absent(uint32_t device, Metric metric) const override {
    return where_[device].first->why_absent(where_[device].second, metric);
  }
  int64_t calls() const override {
    int64_t sum = 0;
    for (const auto& part : parts_) sum += part->calls();
    return sum;
  }
  std::vector<Fact> system_facts() override {
    std::vector<Fact> all;
    for (auto& part : parts_)
      for (Fact& f : part->system_facts()) all.push_back(std::move(f));
    return all;
  }
  std::vector<Fact> device_facts(uint32_t device) override {
    return where_[device].first->device_facts(where_[device].second);
  }
  std::vector<std::vector<Link>> topology() override {
    const size_t n = devices_.size();
    std::vector<std::vector<Link>> all(n, std::vector<Link>(n, Link{"?"}));
    size_t first = 0;
    for (auto& part : parts_) {
      const auto some = part->topology();
      for (size_t i = 0; i < some.size(); ++i)
        for (size_t j = 0; j < some[i].size(); ++j) all[first + i][first + j] = some[i][j];
      first += part->devices().size();
    }
    for (size_t i = 0; i < n; ++i) all[i][i] = Link{"X"};
    return all;
  }
  bool ended() const override {
    return std::all_of(parts_.begin(), parts_.end(), [](const auto& p) { return p->ended(); });
  }

 private:
  std::vector<std::unique_ptr<Backend>> parts_;
  std::vector<DeviceInfo> devices_;
  std::vector<std::pair<Backend*, uint32_t>> where_;   // each device's backend, and its position there
  std::string name_;
};

}  // namespace

std::shared_ptr<Backend> composite_backend(std::vector<std::unique_ptr<Backend>> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  return std::make_shared<Composite>(std::move(parts));
}

}  // namespace profgpu
