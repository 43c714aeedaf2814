// A pickle of plain data as JSON text, for readers of files that PyTorch writes either way.
//
// Tuples and sets become arrays, keys that are numbers become texts. What several places share is written at each of
// them, so the text is bounded; beyond the bound the rest is null.
#pragma once

#include <string>

#include "base/result.h"
#include "base/text_source.h"

namespace profgpu {

struct PickleText {
  std::string json;
  bool cut = false;  ///< the pickle ends early, or is too large: the text is as much of it as there is
};

/// The error: it is no pickle of data; it names the place.
Result<PickleText> pickle_as_json(TextSource& source);

/// Whether text that begins with `head` is a pickle of protocol 2 or later.
bool looks_like_pickle(std::string_view head);

}  // namespace profgpu
