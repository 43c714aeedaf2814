// The screen of `profgpu top` while it is watched: views in, keys in, frames out, signals obeyed; and what
// the user does to processes.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "watch/live/live_view.h"
#include "watch/top/model.h"
#include "watch/top/screen.h"

namespace profgpu {

struct SessionOptions {
  ScreenOptions screen;
  ProcessOrder order;
  /// A line to be shown above the processes, such as why a recording stopped; empty: none.
  std::function<std::string()> notice = {};
};

struct SessionEnd {
  int signal = 0;        ///< that ended it; 0: the user left
  bool silent = false;   ///< a device did not answer at the end: do not wait for it
};

/// Runs until the user leaves or a signal comes. The terminal is then as it was. `source` was not started yet and is
/// left running.
Result<SessionEnd> run_session(LiveSource& source, const SessionOptions& options);

/// Does it to the process that was meant, never to another that got its number since. The error says why not.
Status carry_out(const ProcessCommand& command);

}  // namespace profgpu
