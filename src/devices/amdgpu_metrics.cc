#include "devices/amdgpu_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>

namespace profgpu {

/// Offsets in bytes; 0: not in this revision. Little-endian, naturally aligned.
struct AmdgpuLayout {
  uint8_t format, content;
  uint16_t size;
  uint16_t temperature, memory_temperature;      ///< 16 bits, °C
  uint16_t gfx_activity, memory_activity;        ///< 16 bits, %
  uint16_t power;                                ///< 16 bits, W
  uint16_t energy;                               ///< 64 bits, 2^-16 J
  uint16_t gfx_clock, gfx_clocks, memory_clock;  ///< 16 bits, MHz; `gfx_clocks` of the first
  uint16_t link_width, link_speed;               ///< 16 bits; speed in 0.1 GT/s
  uint16_t throttle_status;                      ///< 64 bits, numbered alike for all chips
  uint16_t replays;                              ///< 64 bits
  uint16_t xgmi_read, xgmi_write;                ///< 8 times 64 bits, KiB
  uint16_t residency;                            ///< rounds, prochot, power, socket, VR and HBM heat: 32 bits each
};

namespace {

constexpr size_t kLinks = 8;

// clang-format off
constexpr AmdgpuLayout kLayouts[] = {
    //     size temp mem   gfx umc  W  energy  clock n  mem  width speed thr replays xgmi  residency
    {1, 1,   96,  4,  8,   16, 18,  22,  24,   54, 1,  58,   74,  76,   0,   0,    0,   0,   0},
    {1, 2,  104,  4,  8,   16, 18,  22,  24,   54, 1,  58,   74,  76,   0,   0,    0,   0,   0},
    {1, 3,  120,  4,  8,   16, 18,  22,  24,   54, 1,  58,   74,  76, 112,   0,    0,   0,   0},
    {1, 4,  288,  4,  6,   12, 14,  10,  24,  240, 8, 280,   48,  50,   0,  88,  104, 168,   0},
    {1, 5,  360,  4,  6,   12, 14,  10,  88,  312, 8, 352,  112, 114,   0, 152,  176, 240,   0},
    {1, 6, 1664,  4,  6,   12, 14,  10,  16,  264, 8, 304,   60,  62,   0, 104,  128, 192,  32},
    {1, 7, 2208,  4,  6,   12, 14,  10,  24,  296, 8, 336,   68,  70,   0, 112,  136, 200,  40},
    {1, 8, 3872,  4,  6,   12, 14,  10,  24,  296, 8, 336,   68,  70,   0, 112,  136, 200,  40},
    // APUs: units of temperature, activity and power differ from chip to chip; hwmon has them in fixed units.
    {2, 2,  128,  0,  0,    0,  0,   0,   0,   76, 1,  80,    0,   0, 120,   0,    0,   0,   0},
    {2, 3,  152,  0,  0,    0,  0,   0,   0,   76, 1,  80,    0,   0, 120,   0,    0,   0,   0},
    {2, 4,  168,  0,  0,    0,  0,   0,   0,   76, 1,  80,    0,   0, 120,   0,    0,   0,   0},
    {3, 0,  264,  0,  0,    0,  0,   0,   0,  174, 1, 186,    0,   0,   0,   0,    0,   0,   0},
};
// clang-format on

template <class T>
T at(std::string_view table, size_t offset) {
  T value;
  std::memcpy(&value, table.data() + offset, sizeof value);
  return value;
}

/// The kernel fills the table with ones before the driver writes the known values.
template <class T>
std::optional<double> known(std::string_view table, size_t offset) {
  if (offset == 0) return std::nullopt;
  const T value = at<T>(table, offset);
  return value == static_cast<T>(~T{0}) ? std::nullopt : std::optional(static_cast<double>(value));
}

void add_16(Reading& reading, Metric metric, std::string_view table, size_t offset, double max) {
  const auto value = known<uint16_t>(table, offset);
  if (value && *value <= max) reading.add(metric, *value);
}

/// Mean of the engines' clocks that are known: a chip of several dies has one each.
void add_clock(Reading& reading, std::string_view table, const AmdgpuLayout& layout) {
  double sum = 0;
  int n = 0;
  for (size_t i = 0; i < layout.gfx_clocks; ++i)
    if (const auto mhz = known<uint16_t>(table, layout.gfx_clock + 2 * i); mhz && *mhz > 0) sum += *mhz, ++n;
  if (n > 0) reading.add(Metric::kSmClock, sum / n);
}

void add_link(Reading& reading, std::string_view table, const AmdgpuLayout& layout) {
  add_16(reading, Metric::kPcieWidth, table, layout.link_width, 64);
  const auto tenths = known<uint16_t>(table, layout.link_speed);
  if (const auto generation = tenths ? link_generation(*tenths / 10) : std::nullopt)
    reading.add(Metric::kPcieGeneration, *generation);
}

void add_xgmi(Reading& reading, Metric metric, std::string_view table, size_t offset) {
  double kibibytes = 0;
  bool any = false;
  for (size_t i = 0; offset && i < kLinks; ++i)
    if (const auto value = known<uint64_t>(table, offset + 8 * i)) kibibytes += *value, any = true;
  if (any) reading.add(metric, 1024 * kibibytes);
}

/// The kernel's numbering of throttlers (amdgpu_smu.h): 0 to 7 power, 16 to 23 current, 32 to 47 heat, 56 and 57 other.
uint32_t clock_reasons_of(uint64_t throttlers) {
  constexpr uint64_t kPower = 0xffull, kCurrent = 0xffull << 16, kHeat = 0xfffull << 32, kHot = 0xfull << 44,
                     kOther = 3ull << 56;
  uint32_t reasons = 0;
  if (throttlers & kPower) reasons |= static_cast<uint32_t>(ClockReason::kSwPowerCap);
  if (throttlers & (kCurrent | kOther)) reasons |= static_cast<uint32_t>(ClockReason::kHwSlowdown);
  if (throttlers & kHeat) reasons |= static_cast<uint32_t>(ClockReason::kSwThermal);
  if (throttlers & kHot) reasons |= static_cast<uint32_t>(ClockReason::kHwThermal);
  return reasons;
}

const AmdgpuLayout* layout_of(std::string_view table, const char*& problem) {
  problem = "is truncated";
  if (table.size() < 4) return nullptr;
  const auto size = at<uint16_t>(table, 0);
  const auto format = at<uint8_t>(table, 2), content = at<uint8_t>(table, 3);
  const auto* layout = std::find_if(std::begin(kLayouts), std::end(kLayouts), [&](const AmdgpuLayout& l) {
    return l.format == format && l.content == content && l.size == size;
  });
  if (layout == std::end(kLayouts)) problem = "has an unknown revision or size";
  else if (table.size() >= size) problem = nullptr;
  return problem ? nullptr : layout;
}

}  // namespace

bool AmdgpuMetrics::read(Reading& reading) {
  char buffer[4096];
  const auto text = file_.read(buffer);
  if (!text) return false;
  const std::string_view table = *text;
  const char* problem = nullptr;
  const AmdgpuLayout* layout = layout_of(table, problem);
  if (table.size() >= 4) revision_ = at<uint8_t>(table, 2) << 8 | at<uint8_t>(table, 3);
  file_.settle(problem);
  if (!layout) return false;
  add_16(reading, Metric::kUtilization, table, layout->gfx_activity, 100);
  add_16(reading, Metric::kMemoryUtilization, table, layout->memory_activity, 100);
  add_16(reading, Metric::kPower, table, layout->power, 10'000);
  add_16(reading, Metric::kTemperature, table, layout->temperature, 200);
  add_16(reading, Metric::kMemoryTemperature, table, layout->memory_temperature, 200);
  add_clock(reading, table, *layout);
  add_16(reading, Metric::kMemoryClock, table, layout->memory_clock, 20'000);
  add_link(reading, table, *layout);
  // A counter at 0 means that the firmware does not count.
  if (const auto energy = known<uint64_t>(table, layout->energy); energy && *energy > 0)
    reading.add(Metric::kEnergy, *energy / 65536);
  if (layout->throttle_status && at<uint64_t>(table, layout->throttle_status) != ~uint64_t{0})
    reading.add(Metric::kClockEventReasons, clock_reasons_of(at<uint64_t>(table, layout->throttle_status)));
  if (const auto replays = known<uint64_t>(table, layout->replays)) reading.add(Metric::kPcieReplays, *replays);
  add_xgmi(reading, Metric::kXgmiRx, table, layout->xgmi_read);
  add_xgmi(reading, Metric::kXgmiTx, table, layout->xgmi_write);
  if (layout->residency) add_residency(*layout, table, reading);
  return true;
}

/// The share of the firmware's rounds in which a throttler was active, times the elapsed time.
void AmdgpuMetrics::add_residency(const AmdgpuLayout& layout, std::string_view table, Reading& reading) {
  const auto word = [&](size_t i) { return at<uint32_t>(table, layout.residency + 4 * i); };
  Residency now = residency_;
  now.rounds = word(0), now.prochot = word(1), now.power = word(2);
  for (size_t i = 0; i < 3; ++i) now.thermal[i] = word(3 + i);
  now.time_ns = reading.time_ns;
  if (now.rounds == ~uint32_t{0}) return;
  const Residency& old = residency_;
  // Differences of unsigned words are right across a wrap.
  const uint32_t rounds = now.rounds - old.rounds;
  if (old.time_ns > 0 && rounds > 0 && now.time_ns > old.time_ns) {
    const double ns_per_round = static_cast<double>(now.time_ns - old.time_ns) / rounds;
    const auto ns = [&](uint32_t later, uint32_t earlier) { return std::min(later - earlier, rounds) * ns_per_round; };
    now.power_ns += ns(now.power, old.power);
    now.prochot_ns += ns(now.prochot, old.prochot);
    double thermal_ns = 0;
    for (size_t i = 0; i < 3; ++i) thermal_ns = std::max(thermal_ns, ns(now.thermal[i], old.thermal[i]));
    now.thermal_ns += thermal_ns;
  }
  residency_ = now;
  reading.add(Metric::kThrottlePower, now.power_ns);
  reading.add(Metric::kThrottleThermal, now.thermal_ns);
  reading.add(Metric::kThrottleHwThermal, now.prochot_ns);
}

std::string AmdgpuMetrics::revision() const {
  const int revision = revision_;
  return revision == 0 ? "" : fmt::format("{}.{}", revision >> 8, revision & 255);
}

}  // namespace profgpu
