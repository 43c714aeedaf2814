#include "trace/import/log/epoch_numbers.h"

namespace profgpu {

int64_t EpochNumbers::operator()(int64_t epoch, int64_t number) {
  begins_anew_ = false;
  auto at = std::ranges::lower_bound(epochs_, epoch, {}, &Epoch::epoch);
  const bool known = at != epochs_.end() && at->epoch == epoch;
  if (!known && at != epochs_.end()) epochs_.clear(), newest_ = 0;  // before all others: another training
  if (!known) at = epochs_.begin() + (&begin(epoch, number) - epochs_.data());
  else if (number <= at->first) epochs_.erase(at + 1, epochs_.end()), newest_ = 0;  // it is begun once more
  // A process that lags may still be in an epoch before.
  const int64_t counted = number + at->before;
  if (at->epoch == epochs_.back().epoch) newest_ = std::max(newest_, counted);
  return counted;
}

EpochNumbers::Epoch& EpochNumbers::begin(int64_t epoch, int64_t number) {
  int64_t before = epochs_.empty() ? 0 : epochs_.back().before;
  begins_anew_ = !epochs_.empty() && number + before <= newest_;
  if (begins_anew_) before = newest_ + (number == 0);
  return epochs_.emplace_back(epoch, before, number);
}

}  // namespace profgpu
