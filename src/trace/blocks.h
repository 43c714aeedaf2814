// A growing sequence that never moves what it holds, so that growth costs no copy and no doubled peak of memory.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace profgpu {

template <class T>
class Blocks {
 public:
  static constexpr size_t kBlock = 1 << 13;

  void push_back(const T& value) {
    if ((size_ & (kBlock - 1)) == 0) blocks_.push_back(std::make_unique_for_overwrite<T[]>(kBlock));
    blocks_.back()[size_++ & (kBlock - 1)] = value;
  }
  T& operator[](size_t i) { return blocks_[i / kBlock][i & (kBlock - 1)]; }
  const T& operator[](size_t i) const { return blocks_[i / kBlock][i & (kBlock - 1)]; }
  [[nodiscard]] size_t size() const { return size_; }
  void clear() {
    blocks_.clear();
    size_ = 0;
  }
  /// Calls fn with each value and gives its memory back on the way.
  template <class Fn>
  void drain(Fn&& fn) {
    for (size_t i = 0; i < size_; ++i) {
      fn((*this)[i]);
      if ((i & (kBlock - 1)) == kBlock - 1) blocks_[i / kBlock].reset();
    }
    clear();
  }

 private:
  std::vector<std::unique_ptr<T[]>> blocks_;
  size_t size_ = 0;
};

}  // namespace profgpu
