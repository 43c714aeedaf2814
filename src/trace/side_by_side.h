// Two pieces of work at once.
#pragma once

#include <thread>

namespace profgpu {

/// Does both, side by side where there are threads for it.
template <class A, class B>
void side_by_side(int threads, A&& a, B&& b) {
  if (threads < 2) {
    a();
    b();
    return;
  }
  std::thread other(b);
  a();
  other.join();
}

}  // namespace profgpu
