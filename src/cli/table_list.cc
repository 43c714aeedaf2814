#include "cli/table_list.h"

#include <fmt/format.h>

#include "app/export/data_table.h"

namespace profgpu {
namespace {

std::string_view type_name(Datum::Kind kind) {
  return kind == Datum::Kind::kInteger ? "integer" : kind == Datum::Kind::kReal ? "real" : "text";
}

}  // namespace

std::string table_list() {
  std::string out;
  for (const DataTable* t : data_tables()) {
    out += fmt::format("{}: {}\n", t->name, t->summary);
    for (const DataColumn& c : t->columns) {
      const std::string_view unit = unit_in_name(c.name);
      out += fmt::format("  {:<24}  {:<16}  {}\n", c.name, unit.empty() ? type_name(c.kind) : unit, c.meaning);
    }
    out += '\n';
  }
  out += "Views\n";
  for (const DataView& v : data_views()) out += fmt::format("  {:<14}  {}\n", v.name, v.summary);
  out += "\nNext: profgpu query PATH \"select ...\"\n";
  return out;
}

}  // namespace profgpu
