// The folder of a recording: the names in it that `profgpu run` takes for itself, so that several at once, on one
// machine or many, do not harm each other.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace profgpu {

struct RecordingFolder {
  std::string path;       ///< absolute
  std::string host;       ///< as it stands in file names
  std::string session;    ///< session.json, or session-HOST.json and so on where that is taken
  std::string samples, summary;
  std::string host_file;  ///< HOST-host.pgt
  bool made = false;      ///< was not there before
};

/// Makes the folder where it is not there, and takes names in it. An error if it holds a recording of this host that
/// has ended, or cannot be written. `shared`: a launcher started several of us, who may have ended before.
Result<RecordingFolder> take_recording_folder(const std::string& path, bool shared);
/// Takes back what take_recording_folder() made, where the command could not be started.
void discard(const RecordingFolder& folder);
/// "profgpu-train-20260102-150405", in the current folder; with -2 and so on where that is taken.
std::string default_recording_folder(const std::vector<std::string>& command);

/// The host's name as recorded processes write it.
std::string recording_host();
/// What a launcher says of how many processes there are; 0: no launcher, or it does not say.
int launched_processes();

}  // namespace profgpu
