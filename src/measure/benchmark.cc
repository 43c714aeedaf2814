#include "measure/benchmark.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/clock.h"
#include "base/decimal.h"
#include "base/steady_unix.h"
#include "base/text.h"
#include "devices/host_process.h"
#include "devices/pending.h"
#include "devices/system_files.h"
#include "measure/memory_nodes.h"

namespace profgpu {
namespace {

constexpr int64_t kSecond_ns = 1'000'000'000;
constexpr int64_t kDeadlines = 4;   // more than those of an exchange one after the other
constexpr int64_t kShortSet_ns = 55 * kSecond_ns;     // after which the short set begins no figure
constexpr int64_t kShortFigures_ns = 30 * kSecond_ns; // shared by the figures of the short set
constexpr int64_t kFiguresOfDevice = 48, kFiguresOfPair = 2;   // about so many
constexpr int64_t kMinFigure_ns = 30'000'000, kMaxFigure_ns = 400'000'000, kFullFigure_ns = 2 * kSecond_ns;

MachineDescription this_machine() {
  const SystemRoots roots = SystemRoots::from_environment();
  MachineDescription m;
  m.host = host_name();
  utsname system{};
  if (::uname(&system) == 0) m.kernel = system.release;
  m.processor = line_value(file_text(roots.proc + "/cpuinfo").value_or(""), "model name\t");
  m.cores = std::thread::hardware_concurrency();
  const std::string memory = file_text(roots.proc + "/meminfo").value_or("");
  const std::string_view kibibytes = line_value(memory, "MemTotal");
  m.governor = file_line(roots.sys + "/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  m.memory_bytes = whole_number(kibibytes.substr(0, kibibytes.find(' '))).value_or(0) * 1024;
  return m;
}

bool hides_devices() {
  return std::ranges::any_of(std::array{"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"},
                             [](const char* name) { return std::getenv(name) != nullptr; });
}

bool is_run(const BenchOptions& options, const Benchmark& b) {
  return options.names.empty() ? !b.only_named : std::ranges::count(options.names, b.name) > 0;
}

// One of a list of numbers as CUDA counts ("1", "cuda:1"), UUIDs or PCI addresses, where nothing else finds devices.
bool is_listed(std::string_view list, const cuda::Device& device) {
  for (std::string_view one : pieces_of(list, ',')) {
    one = without_blanks(one);
    if (one.starts_with("cuda:")) one.remove_prefix(5);
    const bool uuid = !one.empty() && device.uuid.find(one) != std::string::npos && one.find('-') != one.npos;
    const bool address = one.find(':') != one.npos && lower_case(device.pci_bus_id).ends_with(lower_case(one));
    if (one == "all" || whole_number(one) == device.index || uuid || address) return true;
  }
  return false;
}

}  // namespace

Bench::Bench(BenchOptions chosen, std::shared_ptr<Backend> backend)
    : options(std::move(chosen)), backend_(std::move(backend)), begun_ns_(monotonic_ns()) {
  result_.unix_ns = unix_ns();
  result_.full = options.full;
  result_.selected = !options.wanted.empty() || hides_devices();
  for (const Benchmark* b : benchmarks())
    if (is_run(options, *b)) result_.benchmarks.emplace_back(b->name);
  result_.machine = this_machine();
  now_.since_ns = begun_ns_;
}

Status Bench::open_devices() {
  begin(figure("", "opening the driver"));
  auto library = cuda::Library::open();
  if (!library) return library.error();
  library_ = *std::move(library);
  watch_ = std::make_unique<DeviceWatch>(backend_);
  {
    const std::lock_guard lock(mutex_);
    result_.simulated = library_->simulated();
    result_.machine.cuda = library_->version();
    if (backend_ && !backend_->devices().empty()) result_.machine.driver = backend_->devices().front().driver_version;
  }
  const int count = library_->devices();
  if (options.launched) open_device(options.launched->local_rank % count);   // each rank has its own
  else for (int i = 0; i < count; ++i) open_device(i);
  if (devices.empty() && !options.wanted.empty())
    return Error{fmt::format("no device \"{}\" among the {} that CUDA shows", options.wanted, count),
                 "`profgpu devices` lists them"};
  if (devices.empty()) return Error{"no GPU could be opened"};
  return ok();
}

bool Bench::is_wanted(const cuda::Device& device, const std::optional<uint32_t>& watched) const {
  if (options.wanted.empty()) return true;
  if (options.only.empty()) return is_listed(options.wanted, device);
  return watched && std::ranges::count(options.only, *watched) > 0;
}

void Bench::open_device(int index) {
  Figure opening = figure("", "opening the device");
  opening.device = index;
  begin(opening);
  auto found = cuda::Device::find(library_, index);
  if (!found) return miss(opening, found.error());
  const auto watched = watch_->find((*found)->uuid, (*found)->pci_bus_id);
  if (!is_wanted(**found, watched)) return;
  BenchDevice device{std::move(*found), watched};
  note_others(device);
  const bool of_context = std::ranges::count(result_.benchmarks, "launch") > 0 && watched;
  const auto before = of_context ? watch_->memory_used_now(*watched) : std::nullopt;
  Status started = device.cuda->create_context();
  if (started && before)
    if (const auto after = watch_->memory_used_now(*watched); after && *after > *before)
      device.context_bytes = *after - *before;
  if (started) started = device.cuda->start();
  if (!started) return miss(opening, started.error());
  const cuda::Device& c = *device.cuda;
  {
    const std::lock_guard lock(mutex_);
    result_.devices.push_back({index, c.name, c.uuid, c.pci_bus_id, c.compute_capability, c.memory_bytes,
                               c.multiprocessors});
  }
  note_placement(c);
  if (options.lock_clocks) lock_clocks(c);
  devices.push_back(std::move(device));
}

void Bench::lock_clocks(const cuda::Device& device) {
  const Status locked = clocks->lock(device.uuid, device.pci_bus_id);
  std::string why_not;
  if (!locked) append_listed(why_not, locked.error().message);
  if (!locked && !locked.error().hint.empty()) why_not += "; " + locked.error().hint;
  std::string& devices_alike = lock_notes_[why_not];
  append_listed(devices_alike, fmt::format("GPU {}", device.index));
  note(locked ? fmt::format("the clocks of {} were locked at what the power limit lets them keep up, and released at the "
                            "end", devices_alike)
              : fmt::format("the clocks of {} are not locked: {}", devices_alike, why_not), "clocks " + why_not);
  if (!locked) return;
  const std::lock_guard lock(mutex_);
  result_.clocks_locked.push_back(device.index);
}

// Where this process may not run on the device's node, each copy and launch crosses what joins the processors.
void Bench::note_placement(const cuda::Device& device) {
  const auto own = node_of_device(device.pci_bus_id);
  const std::vector<MemoryNode> nodes = memory_nodes();
  if (!own || nodes.empty() || std::ranges::count(nodes, *own, &MemoryNode::number) > 0) return;
  note(fmt::format("GPU {} is attached to memory node {}, and this process may run on node {} only", device.index, *own,
                   joined(nodes, ", ", [](const MemoryNode& n) { return std::to_string(n.number); })));
}

void Bench::note_others(const BenchDevice& device) {
  if (!device.watched) return;
  const std::vector<std::string> others = watch_->others_at_first(*device.watched);
  if (!others.empty())
    note(fmt::format("GPU {} is used by {} as well: its figures may be too low", device.cuda->index,
                     joined(others, ", ")), fmt::format("used {}", device.cuda->index));
}

// What computes on the figure's devices beside this program; of several devices together on any of them.
std::string Bench::others_on(const Figure& figure) const {
  std::string who;
  for (const BenchDevice& d : devices) {
    const bool own = figure.device ? figure.device == d.cuda->index || figure.peer == d.cuda->index
                                   : figure.of_group();
    if (!own || !d.watched) continue;
    for (const std::string& other : watch_->others(*d.watched)) {
      // Ranks of a job map each other's memory, and are then on each other's device as well.
      if (options.launched && other.starts_with("profgpu ")) continue;
      if (!contains(who, other)) append_listed(who, other);
    }
  }
  return who;
}

void Bench::note_link_lanes(const BenchDevice& device, const Figure& figure) {
  const std::string& link = figure.readings.pcie_link;
  if (contains(link, " of "))
    note(fmt::format("GPU {}: its PCIe link is {}: device and slot have more lanes than are in use", device.cuda->index,
                     link), fmt::format("lanes {}", device.cuda->index));
}

void Bench::note(std::string text, const std::string& key) {
  const std::lock_guard lock(mutex_);
  auto known = std::ranges::find_if(notes_, [&](const auto& n) { return !key.empty() && n.first == key; });
  if (known == notes_.end() && !text.empty()) notes_.emplace_back(key, std::move(text));
  else if (known != notes_.end() && text.empty()) notes_.erase(known);
  else if (known != notes_.end()) known->second = std::move(text);
}

Figure Bench::figure(std::string name, std::string label, const cuda::Device* device, std::string unit) const {
  Figure f;
  f.benchmark = benchmark_, f.name = std::move(name), f.label = std::move(label), f.unit = std::move(unit);
  if (device) f.device = device->index;
  return f;
}

BenchDevice* Bench::device_of(const Figure& figure) {
  for (BenchDevice& d : devices)
    if (figure.device == d.cuda->index) return &d;
  return nullptr;
}

bool Bench::out_of_time() const {
  return !options.full && options.names.empty() && monotonic_ns() - begun_ns_ > kShortSet_ns;
}

void Bench::begin(const Figure& figure) {
  const std::lock_guard lock(mutex_);
  now_ = {figure, monotonic_ns()};
}

void Bench::wait_for_others(bool waits) {
  const std::lock_guard lock(mutex_);
  now_.since_ns = monotonic_ns() + (waits ? kDeadlines * options.patience_ns : 0);
}

bool Bench::has_time_for(const Figure& figure) {
  if (!out_of_time()) return true;
  miss(figure, {"no time was left", "run it alone: profgpu bench " + figure.benchmark}, MissKind::kSkipped);
  return false;
}

// A device that does not work any more fails at everything: that is reported once.
bool Bench::found_lost(const Figure& figure, const Error& failure) {
  for (BenchDevice& d : devices) {
    const bool own = figure.device == d.cuda->index || (figure.device && figure.peer == d.cuda->index);
    if (!own || d.lost) continue;
    Status alive = d.cuda->use();
    if (alive) alive = d.cuda->api.synchronize();
    if (alive) continue;
    Figure of_device = figure;
    of_device.device = d.cuda->index;
    miss(of_device, {failure.message + "; the device does not work any more",
                     "`profgpu doctor` and `dmesg | grep -i xid` look for the reason"}, MissKind::kLost);
    return d.lost = true;
  }
  return false;
}

std::optional<Figure> Bench::measure(Figure figure, double amount, const TimedRun& run, Clock clock) {
  BenchDevice* device = device_of(figure);
  if (device && device->lost) return std::nullopt;
  if (!has_time_for(figure)) return std::nullopt;
  begin(figure);
  const auto count = static_cast<int64_t>(devices.size());
  const int64_t budget_ns =
      options.full ? kFullFigure_ns
                   : std::clamp(kShortFigures_ns / (count * kFiguresOfDevice + kFiguresOfPair * count * count + 1),
                                kMinFigure_ns, kMaxFigure_ns);
  const int64_t from_ns = steady_unix_ns();
  const auto timed = [&](int64_t calls) {
    begin(figure);   // --timeout is of one repetition, not of the whole figure
    return run(calls);
  };
  const auto timing = repeat(timed, budget_ns, [&] { return clock == Clock::kHost ? monotonic_ns() : now_ns(); });
  if (!timing) {
    if (!found_lost(figure, timing.error())) miss(figure, timing.error());
    return std::nullopt;
  }
  if (timing->best_ns <= 0) return miss(figure, {"too short to be timed"}), std::nullopt;
  figure.value = amount > 0 ? amount / timing->median_ns : timing->median_ns;
  figure.best = amount > 0 ? amount / timing->best_ns : timing->best_ns;
  figure.spread_pct = timing->spread_pct, figure.runs = timing->runs, figure.outliers = timing->outliers;
  if (device) figure.readings = readings(*device, from_ns), note_link_lanes(*device, figure);
  note_pcie_pair(figure, from_ns);
  figure.used_by = others_on(figure);
  add(figure);
  return figure;
}

// Between two devices the slower of their PCIe links counts.
void Bench::note_pcie_pair(Figure& figure, int64_t from_ns) {
  if (figure.link_class() != "PCIe" || !figure.readings.pcie_gbps) return;
  const BenchDevice* peer = first_where(devices, [&](const BenchDevice& d) { return figure.peer == d.cuda->index; });
  const DeviceReadings other = peer ? readings(*peer, from_ns) : DeviceReadings{};
  if (!other.pcie_gbps) return;
  if (*other.pcie_gbps < *figure.readings.pcie_gbps)
    figure.readings.pcie_gbps = other.pcie_gbps, figure.readings.pcie_link = other.pcie_link;
  figure.link_gbps = figure.readings.pcie_gbps;
}

DeviceReadings Bench::readings(const BenchDevice& device, int64_t from_ns) const {
  return device.watched ? watch_->since(*device.watched, from_ns) : DeviceReadings{};
}

DeviceFaults Bench::faults(const BenchDevice& device, int64_t from_ns) const {
  return device.watched ? watch_->faults_since(*device.watched, from_ns) : DeviceFaults{};
}

void Bench::put(Figure figure) {
  if (figure.used_by.empty()) figure.used_by = others_on(figure);
  const std::lock_guard lock(mutex_);
  for (Figure& f : result_.figures)
    if (f.same_quantity(figure)) {
      if (figure.used_by.empty()) figure.used_by = f.used_by;
      f = std::move(figure);
      return;
    }
  result_.figures.push_back(std::move(figure));
}

void Bench::note_link(Figure& figure, const BenchDevice& from, const BenchDevice& to) {
  if (!from.watched || !to.watched) return;
  figure.link = watch_->link(*from.watched, *to.watched);
  figure.link_gbps = watch_->link_gbps(*from.watched, figure.link);
}

void Bench::add(Figure figure) {
  if (figure.used_by.empty()) figure.used_by = others_on(figure);
  const std::lock_guard lock(mutex_);
  result_.figures.push_back(std::move(figure));
}

void Bench::add(MeasuredRank rank) {
  const std::lock_guard lock(mutex_);
  result_.ranks.push_back(std::move(rank));
}

Status Bench::open() {
  if (!opened_) opened_ = open_devices();
  return *opened_;
}

void Bench::miss(const Figure& figure, const Error& why, MissKind kind) {
  if (const BenchDevice* device = device_of(figure); !device || !device->lost) give_up(figure, why, kind);
}

void Bench::give_up(const Figure& figure, const Error& why, MissKind kind) {
  const std::lock_guard lock(mutex_);
  result_.not_measured.push_back({figure.benchmark, figure.label, figure.device, why.message, why.hint, kind});
}

void Bench::each_device(const std::function<void(BenchDevice&)>& of) {
  for (BenchDevice& d : devices) {
    if (d.lost) continue;
    if (const Status current = d.cuda->use(); current) {
      of(d);
    } else {
      miss(figure("", "", d.cuda.get()), current.error(), MissKind::kLost);
      d.lost = true;
    }
  }
}

void Bench::run(const Benchmark& benchmark) {
  benchmark_ = benchmark.name;
  if (benchmark.of_devices)
    if (const Status opened = open(); !opened) return miss(figure("", ""), opened.error());
  if (benchmark.needs_path && options.path.empty())
    return miss(figure("", ""), {"no file or folder to read", "name one with --path"}, MissKind::kSkipped);
  benchmark.run(*this);
}

BenchResult Bench::result() const {
  const std::lock_guard lock(mutex_);
  BenchResult result = result_;
  for (const auto& [key, text] : notes_) result.notes.push_back(text);
  return result;
}

Bench::Now Bench::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

BenchEnd run_benchmarks(const BenchOptions& options, std::shared_ptr<Backend> backend,
                        const std::function<bool(const Bench::Now&)>& stop) {
  const auto bench = std::make_shared<Bench>(options, std::move(backend));
  Pending<bool> work([bench] {
    for (const Benchmark* b : benchmarks())
      if (is_run(bench->options, *b)) bench->run(*b);
    bench->devices.clear();
    return true;
  });
  BenchEnd end;
  for (bool done = false, stuck = false; !done && !stuck && !end.stopped;) {
    done = work.await(std::chrono::steady_clock::now() + std::chrono::milliseconds(100)).has_value();
    if (done) break;
    const Bench::Now now = bench->now();
    end.stopped = stop(now);
    stuck = !end.stopped && monotonic_ns() - now.since_ns > options.patience_ns;
    if (stuck)
      bench->give_up(now.figure, {fmt::format("did not return within {} s", options.patience_ns / kSecond_ns),
                                  fmt::format("nothing after it was measured{}",
                                              now.figure.device ? "; a driver that hangs needs a reset or a reboot"
                                                                : "")},
                     MissKind::kHang);
    if (stuck || end.stopped) left_in_driver = true;
  }
  // Of what is stuck or was stopped too: nothing else does it.
  if (options.lock_clocks)
    if (std::string locked = released_in_time(bench->clocks); !locked.empty()) bench->note(std::move(locked));
  end.result = bench->result();
  end.result.interrupted = end.stopped;
  left_in_driver = left_in_driver || bench->any_stuck();
  return end;
}

}  // namespace profgpu
