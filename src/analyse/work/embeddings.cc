// Rows of tables, and elements by index: what is looked up is read and written once, and so are the indices.
#include <algorithm>

#include "analyse/work/op_sizes.h"

namespace profgpu {
namespace {

// Rows of the input at `table` that the indices at `indices` select.
Amount selected_rows(const OpInputs& in, size_t table, size_t indices) {
  if (in[table].shape.empty()) return Amount::unknown();
  return bytes_of(elements_of(in[indices]) * product_after(in[table].shape, 1), in[table].element_bits());
}

// What is looked up is read once, however often, and written each time.
Amount looked_up(const OpInputs& in, Amount result) { return least(result, bytes_like(in, 0)) + result; }

OpWork embedding(const OpInputs& in) { return moving(looked_up(in, selected_rows(in, 0, 1)) + bytes_of(in, 1)); }

// Gradients of looked-up rows into a table of `num_weights` rows, which is written as a whole.
OpWork embedding_backward(const OpInputs& in) {
  const auto rows = whole_value(in[2]);
  if (!rows || in[0].shape.empty()) return {.flops = 0};
  return moving(bytes_of(in, 0, 2) + bytes_of(Amount(*rows) * in[0].shape.back(), in[0].element_bits()));
}

// A bag's rows are added up: one row a bag is written.
OpWork embedding_bag(const OpInputs& in) {
  if (in[0].shape.size() != 2) return {.flops = 0};
  const Amount bags = bytes_of(elements_of(in[2]) * in[0].shape[1], in[0].element_bits());
  return moving(least(selected_rows(in, 0, 1), bytes_like(in, 0)) + bytes_of(in, 1, 3) + bags);
}

// aten::index_select(self, dim, index): as many slices as indices.
OpWork index_select(const OpInputs& in) {
  const auto dim = whole_value(in[1]);
  const auto& shape = in[0].shape;
  const auto dimensions = static_cast<int64_t>(shape.size());
  if (!dim || *dim < -dimensions || *dim >= dimensions) return {.flops = 0};
  std::vector<int64_t> result = shape;
  result[static_cast<size_t>(*dim < 0 ? *dim + dimensions : *dim)] = 1;
  const Amount moved = bytes_of(elements_of(in[2]) * product_of(result), in[0].element_bits());
  return moving(looked_up(in, moved) + bytes_of(in, 2));
}

// Elements at the indices, which have the result's shape.
OpWork gather(const OpInputs& in) {
  return moving(looked_up(in, bytes_of(elements_of(in[2]), in[0].element_bits())) + bytes_of(in, 2));
}

// As many elements of `self` as `source` has are written; where they are added to, read before.
template <bool Adds>
OpWork scatter(const OpInputs& in) {
  const Amount source = is_tensor(in[3]) ? bytes_of(in, 3) : bytes_of(elements_of(in[2]), in[0].element_bits());
  return moving(source * (Adds ? 3 : 2) + bytes_of(in, 2));
}

// aten::index_put_(self, indices, values): the types of indices are not recorded; they count nothing.
OpWork index_put(const OpInputs& in) { return moving(bytes_of(in, 2) * 2); }

// An index that is a mask selects as much as its values say, which no trace has; types of indices are not recorded.
bool may_be_mask(const std::vector<int64_t>& index, const std::vector<int64_t>& shape) {
  return index.size() <= shape.size() && std::ranges::equal(index, std::span(shape).first(index.size()));
}

// aten::index(self, indices) with one index, or several of one shape, for the first dimensions.
OpWork index(const OpInputs& in) {
  const auto& list = in[1].list;
  if (list.empty() || list.size() > in[0].shape.size()) return {.flops = 0};
  const auto shape = broadcast(list);
  if (!shape || shape->empty() || (list.size() == 1 && may_be_mask(list[0], in[0].shape))) return {.flops = 0};
  const Amount moved = bytes_of(product_of(*shape) * product_after(in[0].shape, list.size()), in[0].element_bits());
  return moving(looked_up(in, moved));
}

// FBGEMM's lookups in several tables at once: (…, weights on the device 1, …, ends of tables' columns 6, sum of their
// columns 7, most of a table 8, …, indices 11, offsets of bags 12, pooling 13, …). Which table an index is of is not in
// the trace: rows have to be of one width.
OpWork lookups(const OpInputs& in) {
  const auto all = whole_value(in[7]), most = whole_value(in[8]);
  const int64_t tables = in[6].shape.size() == 1 ? in[6].shape[0] - 1 : 0;
  if (!all || !most || tables < 1 || *most < 1 || *all % *most != 0 || *all / *most != tables) return {.flops = 0};
  const bool on_device = !in[1].shape.empty() && in[1].shape[0] > 0;
  if (in[12].shape.size() != 1 || !on_device) return {.flops = 0};
  const int bits = in[1].element_bits();
  const bool pooled = whole_value(in[13]).value_or(2) < 2;   // by sum or mean; else each row is a result
  const Amount rows = elements_of(in[11]), results = pooled ? Amount(in[12].shape[0]) - 1 : rows;
  return moving(bytes_of((rows + results) * *most, bits) + bytes_of(in, 11, 13) + bytes_of(in, 14));
}

// Their gradients go into rows that only indices say, and so do the optimizer's states.
OpWork into_rows_unknown(const OpInputs&) { return {.flops = 0}; }

// A permutation of columns.
OpWork permuted(const OpInputs& in) { return moving(bytes_of(in, 0) + bytes_like(in, 0)); }

// Read, and seldom changed.
OpWork checked(const OpInputs& in) { return moving(bytes_of(in, 1, 3)); }

constexpr OpForm kEmbeddingForms[] = {
    {"aten::embedding", embedding},
    {"aten::embedding_dense_backward", embedding_backward},
    {"aten::_embedding_bag aten::_embedding_bag_forward_only", embedding_bag},
    {"aten::index_select", index_select},
    {"aten::gather", gather},
    {"aten::scatter aten::index_copy", scatter<false>},
    {"aten::scatter_add aten::index_add aten::scatter_reduce", scatter<true>},
    {"aten::index_put aten::_index_put_impl", index_put},
    {"aten::index aten::_unsafe_index", index},
    {"fbgemm::split_embedding_codegen_lookup_*", lookups},
    {"torch::autograd::CppNode<SplitLookupFunction_*", into_rows_unknown},
    {"fbgemm::permute_pooled_embs* fbgemm::asynchronous_complete_cumsum", permuted},
    {"fbgemm::bounds_check_indices", checked},
};

}  // namespace

extern const OpFamily kEmbeddings = {"embeddings", kEmbeddingForms};

}  // namespace profgpu
