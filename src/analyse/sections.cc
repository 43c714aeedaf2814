#include <atomic>
#include <thread>

#include "analyse/analysis.h"
#include "analyse/replay.h"

namespace profgpu {

std::vector<Section> sections(const Facts& facts) {
  const std::vector<const Analysis*>& all = analyses();
  std::vector<Section> shown(all.size());
  std::atomic<size_t> taken{0};
  const auto show = [&](size_t i) {
    shown[i] = {std::string(all[i]->name), std::string(all[i]->title), all[i]->show(facts)};
  };
  std::thread other([&] {
    for (size_t i = all.size(); taken++ < all.size();) show(--i);
  });
  for (size_t i = 0; taken++ < all.size(); ++i) show(i);
  // Rules ask for it as soon as the last section is there.
  facts.get<Replay>();
  other.join();
  return shown;
}

}  // namespace profgpu
