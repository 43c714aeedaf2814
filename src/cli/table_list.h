// The tables and views that a query may ask, for people.
#pragma once

#include <string>

namespace profgpu {

std::string table_list();

}  // namespace profgpu
