// Rows of tables, and elements by index: what is looked up is read and written once, and so are the indices.
#include "analyse/work/op_sizes.h"

namespace profgpu {
namespace {

// Rows of the input at `table` that the indices at `indices` select.
Amount selected_rows(const OpInputs& in, size_t table, size_t indices) {
  if (in[table].shape.empty()) return Amount::unknown();
  return bytes_of(elements_of(in[indices]) * product_after(in[table].shape, 1), in[table].element_bits());
}

OpWork embedding(const OpInputs& in) { return moving(selected_rows(in, 0, 1) * 2 + bytes_of(in, 1)); }

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
  return moving(selected_rows(in, 0, 1) + bytes_of(in, 1, 3) + bags);
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
  return moving(moved * 2 + bytes_of(in, 2));
}

// Elements at the indices, which have the result's shape.
OpWork gather(const OpInputs& in) {
  return moving(bytes_of(elements_of(in[2]), in[0].element_bits()) * 2 + bytes_of(in, 2));
}

// As many elements of `self` as `source` has are written; where they are added to, read before.
template <bool Adds>
OpWork scatter(const OpInputs& in) {
  const Amount source = is_tensor(in[3]) ? bytes_of(in, 3) : bytes_of(elements_of(in[2]), in[0].element_bits());
  return moving(source * (Adds ? 3 : 2) + bytes_of(in, 2));
}

// aten::index_put_(self, indices, values): the types of indices are not recorded; they count nothing.
OpWork index_put(const OpInputs& in) { return moving(bytes_of(in, 2) * 2); }

// aten::index(self, indices) with one index, or several of one shape, for the first dimensions.
OpWork index(const OpInputs& in) {
  const auto& list = in[1].list;
  if (list.empty() || list.size() > in[0].shape.size()) return {.flops = 0};
  const auto shape = broadcast(list);
  if (!shape || shape->empty()) return {.flops = 0};
  const Amount moved = bytes_of(product_of(*shape) * product_after(in[0].shape, list.size()), in[0].element_bits());
  return moving(moved * 2);
}

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
};

}  // namespace

extern const OpFamily kEmbeddings = {"embeddings", kEmbeddingForms};

}  // namespace profgpu
