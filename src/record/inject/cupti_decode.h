// Records of CUPTI to rows of the recording.
//
// Budget: 150 ns a record on one core of 2020, on CUPTI's own thread.
#pragma once

#include "record/inject/cupti_types.h"
#include "record/inject/recorder.h"

namespace profgpu::inject::cupti {

/// Forgets names and contexts of an earlier recording: numbers of names hold for one file.
void reset_decoder(uint32_t version);

/// What a buffer had that is not among the rows.
struct Undecoded {
  uint64_t unfinished = 0;  ///< CUPTI gave no times
  uint64_t unknown = 0;     ///< of a kind that is not asked for
  bool damaged = false;     ///< CUPTI could not walk on
};
Undecoded decode(const Calls& calls, uint8_t* buffer, size_t valid, const Collecting& held);

/// Number of records in a buffer, found without decoding.
uint64_t count_records(const Calls& calls, uint8_t* buffer, size_t valid);

/// Adds the rows of devices that were seen since, with their places on the bus. On our own thread: asks the driver.
void add_seen_devices();

/// Numbers of the driver's calls that start work on a device: others are of no use and many; and of the runtime's calls
/// that programs make all the time and that take no time. Such calls are left out, by CUPTI where it can.
struct CallNumbers {
  const uint32_t* begin_;
  const uint32_t* end_;
  const uint32_t* begin() const { return begin_; }
  const uint32_t* end() const { return end_; }
};
CallNumbers work_calls();
CallNumbers chatter();

// Which kinds of activity CUPTI is asked for.

/// False where CUPTI refuses what a recording cannot do without: nothing is enabled then, and `reason` is a sentence.
/// With `whole_graphs` a launch of a graph is one record, else each of its nodes. `tell`: notes name what else is
/// refused.
bool enable_kinds(const Calls& calls, bool whole_graphs, bool tell, char* reason, size_t size);
void disable_kinds(const Calls& calls);

}  // namespace profgpu::inject::cupti
