// What devices can do at most: dense peak rates by precision and memory bandwidth, from their vendors' documents.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyse/work/op_work.h"
#include "base/result.h"

namespace profgpu {

struct DeviceLimits {
  std::string name;                          ///< "H100 SXM"
  /// By Precision, in 10^12 operations a second, without sparsity; 0: unknown, or the device has no such units.
  std::array<double, kPrecisions> tera{};
  double memory_gbps = 0;                    ///< 10^9 bytes a second; 0: unknown
  int32_t multiprocessors = 0;               ///< 0: unknown
  int32_t clock_mhz = 0;                     ///< at which it reaches the FP16 peak; 0: not published
  int32_t fp16_per_cycle = 0;                ///< FP16 operations of one multiprocessor in one cycle
  std::string source;                        ///< the document
  int64_t cache_bytes = 0;                   ///< of the last cache before its memory; 0: unknown
  double link_gbps = 0;                      ///< to other devices, both directions and all links together; 0: unknown
  double host_link_gbps = 0;                 ///< to the host, both directions; 0: unknown
  std::string uuid = {};                     ///< of measured ones; empty: unknown
  /// As `tera`: what products reach at most where the vendor measured that; 0: it published nothing.
  std::array<double, kPrecisions> achievable_tera{};
  std::string achievable_source = {};        ///< the document of these

  /// In operations and bytes per nanosecond; 0: unknown.
  [[nodiscard]] double operations_per_ns(Precision p) const { return tera[static_cast<size_t>(p)] * 1e3; }
  [[nodiscard]] double bytes_per_ns() const { return memory_gbps; }
  /// What products reach at most, as far as that is published, else the peak; 0: unknown.
  [[nodiscard]] double achievable_per_ns(Precision p) const {
    const double tera_of = achievable_tera[static_cast<size_t>(p)];
    return tera_of > 0 ? tera_of * 1e3 : operations_per_ns(p);
  }
  /// As least_ns(), at achievable rates.
  [[nodiscard]] std::optional<double> achievable_ns(const OpWork& work) const;
  /// The shortest time for the work; none: unknown, since a rate or the work is.
  [[nodiscard]] std::optional<double> least_ns(const OpWork& work) const;
  /// Whether the work takes longer to compute than to move. Only where least_ns() is known.
  [[nodiscard]] bool computes_longer(const OpWork& work) const;
  /// The rate of work that takes so long, as a share of the peak of its precision; none: unknown.
  [[nodiscard]] std::optional<double> peak_pct(const OpWork& work, int64_t ns) const;
};

/// How a trace or a driver describes a device.
struct DeviceDescription {
  std::string_view name;
  int64_t memory_bytes = 0;      ///< 0: unknown
  int32_t multiprocessors = 0;   ///< 0: unknown
};

struct FoundLimits {
  std::optional<DeviceLimits> limits;
  std::string why;               ///< without limits: the reason, one clause
};
/// By name, that of a driver or of the table; memory size and multiprocessors choose among variants of the name, rule
/// out slices of a device, and tell the product where the name does not ("AMD Radeon Graphics"). Unknown where several
/// variants that differ are left.
FoundLimits find_limits(const DeviceDescription& device);

/// "gfx942": "MI300A, MI300X or MI325X"; empty: unknown.
std::string_view devices_of_architecture(std::string_view name);

/// All devices whose limits are known, by vendor and age.
const std::vector<DeviceLimits>& known_limits();

struct StorageRate {
  std::string label, unit;
  double value = 0;
};

/// The highest bus bandwidth that an operation reached, over any size.
struct CollectiveRate {
  std::string op;   ///< "all_reduce"
  int64_t ranks = 0;
  double busbw_gbps = 0;
};

/// What was measured: a result of `profgpu bench`, or rates that a user wrote down, see docs/roofline.md.
struct MeasuredMachine {
  std::vector<DeviceLimits> devices;   ///< without a name: of all devices
  std::string path;                    ///< of the file
  std::vector<StorageRate> storage;    ///< what storage and decoders reach
  std::vector<CollectiveRate> collectives;   ///< by operation; as `profgpu bench` measures NCCL and RCCL
};
/// The error: the file says nothing of devices.
Result<MeasuredMachine> measured_machine(std::string text, std::string_view path);
/// The entry of a device; null: none.
const DeviceLimits* limits_called(std::span<const DeviceLimits> all, std::string_view device_name);
/// The entry of the very device; null: none, or either has no UUID.
const DeviceLimits* limits_of_uuid(std::span<const DeviceLimits> all, std::string_view uuid);

}  // namespace profgpu
