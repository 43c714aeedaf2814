// Interned strings. One pool per trace; ids are dense, 32-bit, and of a type of their own.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace profgpu {

// Row numbers of different tables are different types, so that they cannot be mixed up.

template <class Tag>
struct Id {
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  uint32_t value = kNone;

  constexpr Id() = default;
  constexpr explicit Id(std::size_t row) : value(static_cast<uint32_t>(row)) {}
  [[nodiscard]] constexpr bool valid() const { return value != kNone; }
  constexpr auto operator<=>(const Id&) const = default;
  constexpr Id& operator++() {
    ++value;
    return *this;
  }
};

struct StringTag;
using StringId = Id<StringTag>;

/// Open-addressing hash set over an arena. Not thread-safe; parallel importers use one each and merge.
/// Budget: one hash and one compare per intern() of a known string; 13 bytes + text per distinct string.
class StringPool {
 public:
  StringPool();

  StringId intern(std::string_view text);
  /// The id of `text` if it is known, else an invalid id.
  [[nodiscard]] StringId find(std::string_view text) const;
  [[nodiscard]] std::string_view operator[](StringId id) const {
    return id.valid() ? std::string_view(texts_[id.value].data, texts_[id.value].size) : std::string_view{};
  }
  [[nodiscard]] size_t size() const { return texts_.size(); }
  /// Interns every string of `other`; element i of the result is the id here of `other`'s string i.
  std::vector<StringId> absorb(const StringPool& other);
  [[nodiscard]] size_t memory_bytes() const;

 private:
  struct Text {
    const char* data;
    uint32_t size;
    uint32_t hash;
  };
  const char* store(std::string_view text);
  /// Where `text` is, or the free slot for it.
  [[nodiscard]] size_t slot_of(std::string_view text, uint32_t hash) const;
  void grow();

  std::vector<Text> texts_;
  std::vector<uint32_t> slots_;  // text index + 1; 0 is empty; power-of-two size
  std::vector<std::unique_ptr<char[]>> blocks_;
  size_t block_used_ = 0;
  size_t block_size_ = 0;
  size_t arena_bytes_ = 0;
};

}  // namespace profgpu
