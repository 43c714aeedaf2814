// burn: all devices at full load for minutes. What a short run does not show: clocks that fall once the device is warm,
// errors of memory, wrong results, and the card that is weaker than its neighbors.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "analyse/report/quantity.h"
#include "base/statistics.h"
#include "base/steady_unix.h"
#include "base/text.h"
#include "measure/benchmark.h"
#include "measure/cublas_library.h"

namespace profgpu {
namespace {

constexpr int64_t kBurnSize = 8192, kSmallSize = 1024; // of the product; the small one where memory is short
constexpr double kStretch_ns = 250e6;                  // of load between two looks
constexpr size_t kFirst = 8;                           // stretches that count as the beginning
constexpr size_t kOften = 40;                          // stretches after which figures are renewed at each 40th only
constexpr size_t kCompared = 1 << 20;                  // bytes of a result
constexpr double kFall_pct = 5;                        // of the rate, that is noted

struct Loaded {
  BenchDevice* device;
  std::unique_ptr<cublas::Product> product;
  double operations = 0;
  std::vector<char> expected;                          // the result, as it was at first
  std::vector<double> rates;                           // TFLOP/s of each stretch
  bool wrong = false;

  [[nodiscard]] const cuda::Device& cuda() const { return *device->cuda; }
};

Result<std::vector<char>> result_of(const Loaded& l) {
  std::vector<char> got(kCompared);
  Status status = l.cuda().use();
  if (status) status = l.cuda().api.to_host(got.data(), l.product->result(), got.size(), l.cuda().stream());
  if (status) status = l.cuda().api.wait_for_stream(l.cuda().stream());
  if (!status) return status.error();
  return got;
}

Result<Loaded> load(BenchDevice& device, const std::shared_ptr<cublas::Library>& library) {
  Loaded l{&device, nullptr, 0, {}, {}, false};
  for (const int64_t size : {kBurnSize, kSmallSize}) {
    const cublas::ProductShape shape{size, size, size};
    auto made = cublas::Product::make(library, *device.cuda, *cublas::product_kind("bf16"), shape);
    if (!made && size == kSmallSize) return made.error();
    if (!made) continue;
    l.product = *std::move(made), l.operations = shape.operations();
    break;
  }
  if (const Status done = l.product->multiply(); !done) return done.error();
  auto first = result_of(l);
  if (!first) return first.error();
  l.expected = *std::move(first);
  return l;
}

// All devices at once; the time of each. Those that fail are lost.
void stretch(Bench& bench, std::vector<Loaded>& all, std::vector<int64_t>& counts) {
  const auto each = [&](auto part) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].device->lost) continue;
      Status done = all[i].cuda().use();
      if (done) done = part(all[i], counts[i]);
      if (done) continue;
      bench.miss(bench.figure("", "full load", &all[i].cuda()), done.error(), MissKind::kLost);
      all[i].device->lost = true;
    }
  };
  each([](const Loaded& l, int64_t count) {
    Status status = l.cuda().begin_timing();
    for (int64_t c = 0; c < count && status; ++c) status = l.product->multiply();
    return status ? l.cuda().end_timing() : status;
  });
  each([](Loaded& l, int64_t& count) -> Status {
    const auto ns = l.cuda().timed_ns();
    if (!ns) return ns.error();
    if (*ns <= 0) return Error{"too short to be timed"};
    l.rates.push_back(l.operations * static_cast<double>(count) / 1e3 / *ns);
    count = std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(count) * kStretch_ns / *ns), 1, 1000);
    return ok();
  });
  each([&](Loaded& l, int64_t) -> Status {
    const auto got = result_of(l);
    if (!got) return got.error();
    if (*got == l.expected || l.wrong) return ok();
    l.wrong = true;
    bench.miss(bench.figure("", "the same GEMM", &l.cuda()),
               {"its result changed: the device computes wrong numbers",
                "take it out of service; `profgpu doctor` and `dmesg | grep -i xid` look for errors"},
               MissKind::kWrong);
    return ok();
  });
}

// What is known so far: the rate at first, which then stays with its readings, and since then.
void put_figures(Bench& bench, const Loaded& l, int64_t from_unix_ns, bool at_end) {
  const size_t count = l.rates.size();
  const auto figure = [&](const char* name, const char* label, std::vector<double> rates) {
    if (rates.empty()) return;
    std::vector<double> times;
    for (const double rate : rates) times.push_back(1 / rate);
    const Timing t = timing_of(std::move(times));
    Figure f = bench.figure(name, label, &l.cuda(), "TFLOP/s");
    f.value = 1 / t.median_ns, f.best = 1 / t.best_ns, f.spread_pct = t.spread_pct, f.runs = t.runs;
    f.outliers = t.outliers, f.readings = bench.readings(*l.device, from_unix_ns);
    bench.put(std::move(f));
  };
  if (count <= kFirst) figure("first", "bf16 GEMMs, the first 2 s", l.rates);
  else if (at_end || count <= kOften || count % kOften == 0)
    figure("sustained", "bf16 GEMMs, all devices at once", {l.rates.begin() + kFirst, l.rates.end()});
}

// So far: each takes the place of its last text.
void note_findings(Bench& bench, const Loaded& l, int64_t from_unix_ns) {
  const auto note = [&](std::string_view what, std::string text) {
    bench.note(std::move(text), fmt::format("burn {} {}", what, l.cuda().index));
  };
  const DeviceFaults faults = bench.faults(*l.device, from_unix_ns);
  std::string found;
  if (faults.ecc_uncorrected > 0)
    append_listed(found, fmt::format("{} uncorrected ECC errors", faults.ecc_uncorrected));
  if (faults.ecc_corrected > 0) append_listed(found, fmt::format("{} corrected ECC errors", faults.ecc_corrected));
  if (faults.xids > 0) append_listed(found, fmt::format("{} Xid errors, the last {}", faults.xids, faults.last_xid));
  if (!found.empty()) note("faults", fmt::format("GPU {}: {} under load", l.cuda().index, found));
  if (l.rates.size() < 2 * kFirst) return;
  std::vector<double> before(l.rates.begin(), l.rates.begin() + kFirst), after(l.rates.end() - kFirst, l.rates.end());
  const double was = median_of(before), is = median_of(after), fall_pct = 100 * (1 - is / was);
  if (fall_pct < kFall_pct) return note("fall", "");
  const DeviceReadings now = bench.readings(*l.device, steady_unix_ns());
  note("fall", fmt::format("GPU {}: its rate fell by {} under load, from {:.4g} to {:.4g} TFLOP/s{}", l.cuda().index,
                         format_percent(fall_pct, 0), was, is,
                         now.held_back_by.empty() ? "" : ", clocks limited by " + now.held_back_by));
}

void run_burn(Bench& bench) {
  bench.begin(bench.figure("", "filling the devices"));
  const auto library = cublas::Library::open(bench.hip());
  if (!library) return bench.miss(bench.figure("", ""), library.error());
  std::vector<Loaded> all;
  bench.each_device([&](BenchDevice& d) {
    bench.begin(bench.figure("", "filling the device", d.cuda.get()));
    auto loaded = load(d, *library);
    if (loaded) all.push_back(std::move(*loaded));
    else bench.miss(bench.figure("", "full load", d.cuda.get()), loaded.error());
  });
  std::vector<int64_t> counts(all.size(), 1);
  const auto working = [&] { return std::ranges::any_of(all, [](const Loaded& l) { return !l.device->lost; }); };
  if (!working()) return;
  const int64_t from_unix_ns = steady_unix_ns(), begin_ns = all.front().cuda().now_ns();
  const int64_t seconds = bench.options.duration_ns / 1'000'000'000;
  // The first stretch tells how many products fill one.
  stretch(bench, all, counts);
  for (Loaded& l : all) l.rates.clear();
  for (int64_t now_ns = begin_ns; working() && now_ns - begin_ns < bench.options.duration_ns;) {
    bench.begin(bench.figure("", fmt::format("{} of {} s", (now_ns - begin_ns) / 1'000'000'000, seconds)));
    stretch(bench, all, counts);
    for (const Loaded& l : all) {
      if (!l.device->lost) put_figures(bench, l, from_unix_ns, false);
      note_findings(bench, l, from_unix_ns);
    }
    now_ns = all.front().cuda().now_ns();
  }
  for (const Loaded& l : all) put_figures(bench, l, from_unix_ns, true);
  for (const Loaded& l : all) note_findings(bench, l, from_unix_ns);
}

}  // namespace

extern const Benchmark kBurn{
    .name = "burn",
    .summary = "full load on all devices for --duration: clocks, errors, wrong results, the weak card",
    .only_named = true,
    .run = run_burn,
};

}  // namespace profgpu
