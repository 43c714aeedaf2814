#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyse/work/op_work.h"
#include "base/text.h"

namespace profgpu {

extern const OpFamily kProducts, kExperts, kRecurrent, kConvolutions, kAttention, kEmbeddings, kNormalizations, kLosses,
    kPointwise, kCopies, kReductions, kPools, kOptimizers, kTriton;

std::span<const OpFamily* const> op_families() {
  static constexpr const OpFamily* kAll[] = {
      &kProducts, &kExperts, &kRecurrent,  &kConvolutions, &kAttention,  &kEmbeddings, &kNormalizations,
      &kLosses,   &kCopies,  &kPointwise,  &kReductions,   &kPools,      &kOptimizers, &kTriton,
  };
  return kAll;
}

namespace {

struct KnownForm {
  const OpFamily* family = nullptr;
  const OpForm* form = nullptr;
};

struct KnownForms {
  std::unordered_map<std::string_view, KnownForm> whole;
  std::vector<std::pair<std::string_view, KnownForm>> begins;

  KnownForms() {
    for (const OpFamily* family : op_families())
      for (const OpForm& form : family->forms)
        for (const std::string_view op : pieces_of(form.names, ' ')) {
          if (op.ends_with('*')) begins.emplace_back(op.substr(0, op.size() - 1), KnownForm{family, &form});
          else whole.emplace(op, KnownForm{family, &form});
        }
  }
};

KnownForm find_form(std::string_view op) {
  static const KnownForms known;
  auto it = known.whole.find(op);
  if (it == known.whole.end() && op.ends_with('_')) it = known.whole.find(op.substr(0, op.size() - 1));
  if (it != known.whole.end()) return it->second;
  for (const auto& [begin, form] : known.begins)
    if (op.starts_with(begin)) return form;
  return {};
}

}  // namespace

const OpFamily* find_family(std::string_view op) { return find_form(op).family; }

OpWork op_work(const OpInputs& inputs) {
  const OpForm* const form = find_form(inputs.name).form;
  return form != nullptr && !inputs.at.empty() ? form->work(inputs) : OpWork();
}

}  // namespace profgpu
