#include "devices/drm_clients.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/decimal.h"
#include "devices/system_files.h"

namespace profgpu {
namespace {

/// A little less than a second, so that a tick a second is not every other second.
constexpr int64_t kLookGap_ns = 900'000'000;

/// "1234 KiB", "1234 ns", "1234".
std::optional<int64_t> with_unit(std::string_view text) {
  const size_t blank = std::min(text.find(' '), text.size());
  const auto value = all_digits(text.substr(0, blank)) ? whole_number(text.substr(0, blank)) : std::nullopt;
  const std::string_view unit = without_blanks(text.substr(blank));
  const int64_t scale = unit == "KiB" ? 1 << 10 : unit == "MiB" ? 1 << 20 : unit.empty() || unit == "ns" ? 1 : 0;
  return value && scale != 0 && *value <= INT64_MAX / scale ? std::optional(*value * scale) : std::nullopt;
}

const DrmEngine* find_engine(const DrmClient& client, const std::string& name) {
  const auto at = client.engines.find(name);
  return at == client.engines.end() ? nullptr : &at->second;
}

/// Regions of the device's own memory: amdgpu's "vram", xe's "vram0", i915's "local0".
bool on_device(std::string_view region) { return region.starts_with("vram") || region.starts_with("local"); }

bool cut_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// Resident memory; older kernels have it under older names. The kinds come in any order.
struct DrmMemory {
  std::optional<int64_t> resident, memory, total;
  void add(std::optional<int64_t>& sum, int64_t bytes) { sum = sum.value_or(0) + bytes; }
  [[nodiscard]] std::optional<int64_t> best() const { return resident ? resident : memory ? memory : total; }
};

void take_line(std::string_view key, std::string_view value, DrmClient& client, DrmMemory& memory) {
  const auto number = with_unit(value);
  if (!cut_prefix(key, "drm-") || !number) return;
  const double amount = static_cast<double>(*number);
  const auto engine = [&]() -> DrmEngine& { return client.engines[std::string(key)]; };
  if (cut_prefix(key, "engine-capacity-")) engine().capacity = std::max(1.0, amount);
  else if (cut_prefix(key, "engine-")) engine().busy = amount;
  else if (cut_prefix(key, "total-cycles-")) engine().total = amount;
  else if (cut_prefix(key, "cycles-")) engine().busy = amount;
  else if (cut_prefix(key, "resident-") && on_device(key)) memory.add(memory.resident, *number);
  else if (cut_prefix(key, "memory-") && on_device(key)) memory.add(memory.memory, *number);
  else if (cut_prefix(key, "total-") && on_device(key)) memory.add(memory.total, *number);
  else if (key == "client-id") client.id = *number;
}

/// Percent of one engine of the kind since `before`; nullopt: unknown.
std::optional<double> busy_pct(const DrmEngine& now, const DrmEngine* before, double elapsed_ns) {
  // A client that is new since the last look began at 0 ns; how many cycles have elapsed since is unknown.
  const double busy = now.busy - (before ? before->busy : 0);
  const double span = now.total == 0 ? elapsed_ns : before ? now.total - before->total : 0;
  if (span <= 0) return std::nullopt;
  return std::clamp(100 * busy / span / now.capacity, 0.0, 100.0);
}

void add_to(std::optional<double>& sum, double pct) { sum = std::min(100.0, sum.value_or(0) + pct); }

bool is_decoder(std::string_view name) { return name.starts_with("dec") || name.starts_with("jpeg"); }
bool is_encoder(std::string_view name) { return name.starts_with("enc"); }
bool is_compute(std::string_view name) { return name.starts_with("compute") || name == "ccs"; }
bool is_graphics(std::string_view name) { return name == "gfx" || name == "render" || name == "rcs"; }

}  // namespace

std::optional<DrmClient> drm_client(std::string_view fdinfo, const std::vector<std::string_view>& drivers) {
  DrmClient client;
  DrmMemory memory;
  bool ours = false, has_id = false;
  for (const std::string_view line : pieces_of(fdinfo, '\n')) {
    const size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string_view key = line.substr(0, colon), value = without_blanks(line.substr(colon + 1));
    if (key == "drm-driver") ours = std::find(drivers.begin(), drivers.end(), value) != drivers.end();
    else if (key == "drm-pdev") client.pci = value;
    else take_line(key, value, client, memory);
    has_id |= key == "drm-client-id" && with_unit(value).has_value();
  }
  if (!ours || !has_id || client.pci.empty()) return std::nullopt;
  client.memory_bytes = memory.best();
  return client;
}

std::optional<DrmUse> DrmClients::use_of(const std::string& pci, int64_t now_ns, int64_t seen_ns) {
  const std::lock_guard lock(mutex_);
  if (last_look_ns_ == 0 || now_ns - last_look_ns_ >= kLookGap_ns) look(now_ns);
  if (last_look_ns_ == seen_ns) return std::nullopt;
  DrmUse& use = uses_[pci];
  use.time_ns = last_look_ns_;
  use.complete = hidden_ == 0;
  use.compared = looks_ > 1;
  return use;
}

void DrmClients::look(int64_t now_ns) {
  before_.swap(clients_);
  clients_.clear();
  uses_.clear();
  // Where the kernel's threads are not visible, this is a container, or /proc hides other users' processes.
  hidden_ = file_line(proc_ + "/2/comm") == "kthreadd" ? 0 : 1;
  for (const int64_t pid : process_ids(proc_)) look_at(pid);
  const double elapsed_ns = last_look_ns_ == 0 ? 0 : static_cast<double>(now_ns - last_look_ns_);
  last_look_ns_ = now_ns;
  looks_ = std::min(looks_ + 1, 2);
  for (auto& [key, client] : clients_) add_use(client, elapsed_ns);
}

void DrmClients::look_at(int64_t pid) {
  const std::string folder = fmt::format("{}/{}", proc_, pid);
  if (::access((folder + "/fd").c_str(), R_OK | X_OK) != 0 && errno != ENOENT) {
    ++hidden_;
    return;
  }
  for (const std::string& fd : folder_names(folder + "/fd")) {
    char target[32];
    const ssize_t n = ::readlink(fmt::format("{}/fd/{}", folder, fd).c_str(), target, sizeof target);
    if (n <= 0 || !std::string_view(target, static_cast<size_t>(n)).starts_with("/dev/dri/")) continue;
    const auto text = file_text(fmt::format("{}/fdinfo/{}", folder, fd), 16 << 10);
    auto client = text ? drm_client(*text, drivers_) : std::nullopt;
    if (!client) continue;
    client->pid = pid;
    Key key{client->pci, client->id};
    // A duplicate in another process is the same client.
    const auto at = clients_.find(key);
    if (at == clients_.end()) clients_.emplace(std::move(key), std::move(*client));
    else at->second.pid = std::min(at->second.pid, pid);
  }
}

ProcessSample& DrmClients::process_of(DrmUse& use, int64_t pid) {
  for (ProcessSample& p : use.processes)
    if (p.pid == pid) return p;
  use.processes.push_back({});
  use.processes.back().pid = pid;
  use.processes.back().type = 'G';
  return use.processes.back();
}

void DrmClients::add_use(DrmClient& client, double elapsed_ns) {
  DrmUse& use = uses_[client.pci];
  ProcessSample& process = process_of(use, client.pid);
  if (client.memory_bytes) {
    process.memory_bytes = process.memory_bytes.value_or(0) + *client.memory_bytes;
    use.memory_bytes = use.memory_bytes.value_or(0) + *client.memory_bytes;
  }
  const auto before = before_.find({client.pci, client.id});
  std::optional<double> busiest;
  for (auto& [name, engine] : client.engines) {
    if (is_compute(name) && engine.busy > 0) process.type = 'C';
    const DrmEngine* old = before == before_.end() ? nullptr : find_engine(before->second, name);
    // Drivers may report less than before for a while; the larger value holds until they have caught up.
    if (old) engine.busy = std::max(engine.busy, old->busy);
    const auto pct = elapsed_ns > 0 ? busy_pct(engine, old, elapsed_ns) : std::nullopt;
    if (!pct) continue;
    double& total = use.engines_pct[name];
    total = std::min(100.0, total + *pct);
    if (is_decoder(name)) add_to(process.decoder_pct, *pct);
    else if (is_encoder(name)) add_to(process.encoder_pct, *pct);
    else if (is_compute(name) || is_graphics(name)) busiest = std::max(busiest.value_or(0), *pct);
  }
  if (busiest) add_to(process.utilization_pct, *busiest);
}

}  // namespace profgpu
