// Payloads of NVTX ranges in exports that have them (nsys export --include-blobs=true): bytes, laid out by schemas that
// stand in tables of their own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/import/sqlite_source.h"

namespace profgpu {

class NsightPayloads {
 public:
  explicit NsightPayloads(SqliteSource& source);

  /// What the bytes say, as members of a JSON object; empty where no schema fits. A header stands in front of each
  /// payload: domain, schema, and the payload's size. Fields that lie beyond the bytes are left out.
  [[nodiscard]] std::string text_of(std::string_view bytes) const;
  [[nodiscard]] bool empty() const { return schemas_.empty(); }

 private:
  struct Field {
    std::string name;
    uint64_t type = 0;
    size_t offset = 0;
  };
  std::map<std::pair<uint64_t, uint64_t>, std::vector<Field>> schemas_;   // by domain and number
};

}  // namespace profgpu
