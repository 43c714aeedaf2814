// The recording format `.pgt`, version 1: what a file is made of. docs/recording-format.md is the same in words.
//
// A file is a header and then chunks, only ever appended, each by one write(). A chunk is its own header, a body and
// nothing else; its checksum covers both. Whatever ends a process, all whole chunks before the end can be read.
//
// This room is included by the library that is loaded into other people's processes: no C++ runtime, no allocation, no
// exceptions, nothing but <stdint.h> and <stddef.h>. Numbers in headers are little endian.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace profgpu::wire {

/// The first byte is not text, the line ends show a file that went through a text conversion.
inline constexpr unsigned char kFileMagic[8] = {0x89, 'P', 'G', 'T', '\r', '\n', 0x1a, '\n'};
/// Grows only when an old reader would misread a file. New chunk kinds and new columns at the end do not need it.
inline constexpr uint32_t kFormatVersion = 1;

struct FileHeader {
  unsigned char magic[8];
  uint32_t version;
  uint32_t reserved;  ///< 0
};
static_assert(sizeof(FileHeader) == 16);

inline constexpr uint32_t kChunkMagic = 0x4b434750;  ///< "PGCK"
/// A chunk's body is never longer: a reader that meets a longer one has met damage.
inline constexpr uint32_t kMaxBodyBytes = 16u << 20;

struct ChunkHeader {
  uint32_t magic;
  uint16_t kind;     ///< ChunkKind; a reader skips those it does not know
  uint16_t reserved; ///< 0
  uint32_t length;   ///< of the body, bytes
  uint32_t checksum; ///< CRC-32C of the twelve bytes before it and of the body
};
static_assert(sizeof(ChunkHeader) == 16);

/// What the rows of a chunk are. Numbers are for ever.
enum class ChunkKind : uint16_t {
  kEnd = 1,          ///< the process ended in order; no rows
  kStrings = 2,      ///< names, before the first chunk that uses them
  kProperties = 3,   ///< of the process: key, value; a later value replaces an earlier one
  kClockSyncs = 4,
  kThreads = 5,
  kQueues = 6,
  kLaunchShapes = 7,
  kDevices = 8,
  kPayloadSchemas = 9,
  kPayloadFields = 10,
  kKernels = 16,
  kCopies = 17,
  kSets = 18,
  kCalls = 19,
  kSyncs = 20,
  kOverheads = 21,
  kAllocations = 22,
  kGraphLaunches = 23,
  kExternalIds = 24,
  kRangeEvents = 25,
  kCollectives = 26,
  kThreadSamples = 27,
  kPayloads = 28,
  kThreadWaits = 29,
  kDrops = 32,
  kWindows = 33,
  kNotes = 34,
};

/// The body of every chunk but kEnd: this header, then its columns in the order that the row type names them. A column
/// is its encoding (one byte), its length in bytes (varint) and its bytes. A reader skips columns beyond those that it
/// knows; columns that a file written earlier does not have keep what the row type starts them with.
struct BodyHeader {
  uint32_t rows;
  uint32_t reserved;  ///< 0
  int64_t first_ns;   ///< earliest time in the rows, on the rows' clock; 0 where rows have no time
  int64_t last_ns;    ///< latest start in the rows
};
static_assert(sizeof(BodyHeader) == 24);
inline constexpr uint32_t kMaxRows = 1u << 20;
/// Numbers of names, threads, queues, launch shapes and schemas begin at 1 and end here.
inline constexpr uint32_t kMaxStrings = 1u << 18, kMaxThreads = 1u << 20, kMaxQueues = 1u << 13, kMaxShapes = 1u << 15,
                          kMaxSchemas = 512;
/// A chunk has at most so many rows more than its body has bytes, so that a few bytes cannot ask for much memory.
inline constexpr uint32_t kMaxFreeRows = 256;

enum class Encoding : uint8_t {
  kConstant = 0,  ///< one zigzag varint: all rows have this value
  kPlain = 1,     ///< a varint a row: the value, none negative
  kZigzag = 2,    ///< a varint a row: the zigzag value
  kDelta = 3,     ///< a varint a row: the zigzag difference to the row before; before the first row: 0
  kBytes = 4,     ///< bytes as they are (text of kStrings, kPayloads)
};

}  // namespace profgpu::wire
