// Numbers of steps that programs count anew in each epoch, counted on over all epochs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace profgpu {

class EpochNumbers {
 public:
  int64_t operator()(int64_t epoch, int64_t number);

  /// Whether the last number is the first of its epoch: what has passed since the one before holds an evaluation, a
  /// checkpoint or new workers, too.
  [[nodiscard]] bool begins_anew() const { return begins_anew_; }

 private:
  struct Epoch {
    int64_t epoch = 0;
    int64_t before = 0;  // steps of the epochs before it
    int64_t first = 0;   // as printed
  };
  Epoch& begin(int64_t epoch, int64_t number);

  std::vector<Epoch> epochs_;  // by number
  int64_t newest_ = 0;         // of the last one
  bool begins_anew_ = false;
};

}  // namespace profgpu
