#include "present/registry.h"

namespace profgpu {

extern const Presenter kTerminalPresenter;
extern const Presenter kJsonPresenter;
extern const Presenter kMarkdownPresenter;
extern const Presenter kHtmlPresenter;

const std::vector<const Presenter*>& presenters() {
  static const std::vector<const Presenter*> all = {&kTerminalPresenter, &kJsonPresenter, &kMarkdownPresenter,
                                                    &kHtmlPresenter};
  return all;
}

const Presenter* find_presenter(std::string_view name) {
  for (const Presenter* presenter : presenters())
    if (presenter->name == name) return presenter;
  return nullptr;
}

}  // namespace profgpu
