#include "trace/import/nsight_payloads.h"

#include <algorithm>

#include "base/json_quoted.h"
#include "base/text.h"
#include "trace/import/recording_payloads.h"

namespace profgpu {
namespace {

constexpr size_t kHeaderBytes = 32;      // u32 domain, u32, u32 schema, u32, u64 size, u64 size of all
constexpr size_t kSchemaAt = 8, kSizeAt = 16;
constexpr size_t kMaxExportSchemas = 4096, kMaxExportFields = 256, kMaxPayloads = 16;

}  // namespace

NsightPayloads::NsightPayloads(SqliteSource& source) {
  // Of two processes that registered one schema the first stands: numbers are a library's own.
  std::map<std::pair<uint64_t, uint64_t>, std::map<int64_t, Field>> fields;
  std::map<std::pair<uint64_t, uint64_t>, std::map<int64_t, bool>> placed;
  SqliteScan scan(source, "NVTX_PAYLOAD_SCHEMA_ENTRIES", {"domainId", "schemaId", "idx", "type", "name", "offset"});
  while (scan.next() && fields.size() < kMaxExportSchemas) {
    const std::pair key(static_cast<uint64_t>(scan.integer(0, 0)), static_cast<uint64_t>(scan.integer(1, 0)));
    const int64_t index = scan.integer(2, -1);
    if (index < 0 || index >= static_cast<int64_t>(kMaxExportFields)) continue;
    Field field{std::string(scan.text(4).substr(0, 200)), static_cast<uint64_t>(scan.integer(3, 0)),
                static_cast<size_t>(std::clamp<int64_t>(scan.integer(5, 0), 0, 1 << 20))};
    replace_invalid_utf8(field.name);
    if (fields[key].try_emplace(index, std::move(field)).second) placed[key][index] = scan.integer(5).has_value();
  }
  for (auto& [key, by_index] : fields) {
    size_t end = 0;   // as C lays out what has no offset of its own
    for (auto& [index, field] : by_index) {
      const size_t bytes = payload_type_size(field.type);
      if (!placed[key][index] && bytes > 0) field.offset = (end + bytes - 1) / bytes * bytes;
      end = field.offset + bytes;
      schemas_[key].push_back(std::move(field));
    }
  }
}

std::string NsightPayloads::text_of(std::string_view bytes) const {
  std::string members;
  for (size_t n = 0; n < kMaxPayloads && bytes.size() >= kHeaderBytes; ++n) {
    const uint64_t domain = payload_unsigned(bytes.substr(0, 4)), schema = payload_unsigned(bytes.substr(kSchemaAt, 4));
    const uint64_t size = payload_unsigned(bytes.substr(kSizeAt, 8));
    bytes.remove_prefix(kHeaderBytes);
    const std::string_view data = bytes.substr(0, std::min<uint64_t>(size, bytes.size()));
    bytes.remove_prefix(data.size());
    const auto at = schemas_.find({domain, schema});
    if (at == schemas_.end()) continue;
    for (const Field& field : at->second) {
      const size_t wide = payload_type_size(field.type);
      if (wide == 0 || field.offset > data.size() || data.size() - field.offset < wide) continue;
      append_listed(members, json_quoted(field.name) + ": " + payload_value(field.type, data.substr(field.offset, wide)));
    }
  }
  return members;
}

}  // namespace profgpu
