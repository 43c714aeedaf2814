// Row numbers of different tables are different types, so that they cannot be mixed up.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace profgpu {

template <class Tag>
struct Id {
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  uint32_t value = kNone;

  constexpr Id() = default;
  constexpr explicit Id(std::size_t row) : value(static_cast<uint32_t>(row)) {}
  [[nodiscard]] constexpr bool valid() const { return value != kNone; }
  constexpr auto operator<=>(const Id&) const = default;
};

}  // namespace profgpu
