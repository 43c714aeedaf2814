// Records of CUPTI to rows of the recording.
//
// Budget: 150 ns a record on one core of 2020, on CUPTI's own thread.
#pragma once

#include "record/inject/cupti_types.h"
#include "record/inject/device_tables.h"

namespace profgpu::inject::cupti {

/// Forgets names and contexts of an earlier recording: numbers of names hold for one file.
void reset_decoder(uint32_t version);

/// What a buffer had besides the rows.
struct Undecoded {
  uint64_t unfinished = 0;  ///< without times
  bool damaged = false;     ///< CUPTI could not read on
};
Undecoded decode(const Calls& calls, uint8_t* buffer, size_t valid, const Collecting& held);

/// Number of records in a buffer, found without decoding.
uint64_t count_records(const Calls& calls, uint8_t* buffer, size_t valid);

/// Adds the rows of newly seen devices, with their bus ids. On our own thread: calls the driver.
void add_seen_devices();

// The kinds of activity that CUPTI records.

/// False where CUPTI rejects a necessary kind: nothing is enabled then, and `reason` is a sentence. With `whole_graphs`
/// a launch of a graph is one record, else each of its nodes. `report`: write notes on other rejected kinds.
bool enable_kinds(const Calls& calls, bool whole_graphs, bool report, char* reason, size_t size);
void disable_kinds(const Calls& calls);

}  // namespace profgpu::inject::cupti
