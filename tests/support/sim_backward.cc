// The backward pass on the autograd thread.
#include "tests/support/sim_training.h"

namespace profgpu::sim {
namespace {

#define NODE(name, children) "autograd::engine::evaluate_function: " name "/(" name "?(" children "))"
#define ACCUMULATE                        \
  "autograd::engine::evaluate_function: " \
  "torch::autograd::AccumulateGrad(torch::autograd::AccumulateGrad(aten::detach(detach)))"
#define ADDMM_BACKWARD                                                                                                 \
  NODE("AddmmBackward0",                                                                                               \
       "aten::t(aten::transpose(aten::as_strided)),aten::mm(*),aten::t(aten::transpose(aten::as_strided)),aten::mm(#*" \
       "),"                                                                                                            \
       "aten::t(aten::transpose(aten::as_strided)),aten::sum(*),aten::view()%")

const OpScript& linear_backward() {
  static const OpScript s(ADDMM_BACKWARD "," ACCUMULATE "," NODE(
      "TBackward0", "aten::t(aten::transpose(aten::as_strided))") "," ACCUMULATE);
  return s;
}
const OpScript& norm_backward() {
  static const OpScript s(
      NODE("NativeLayerNormBackward0",
           "aten::native_layer_norm_backward(aten::empty_like(aten::empty_strided),**)") "," ACCUMULATE);
  return s;
}
const OpScript& attention_backward() {
  static const OpScript s(NODE("ScaledDotProductFlashAttentionBackward0",
                               "aten::_scaled_dot_product_flash_attention_backward(aten::transpose(aten::as_strided),"
                               "aten::_flash_attention_backward(aten::empty_like(aten::empty_strided),~*))"));
  return s;
}
const OpScript& gelu_backward() {
  static const OpScript s(NODE("GeluBackward0", "aten::gelu_backward(*)"));
  return s;
}
const OpScript& dropout_backward() {
  static const OpScript s(NODE("NativeDropoutBackward0", "aten::native_dropout_backward(*)"));
  return s;
}
const OpScript& add_backward() {
  static const OpScript s(NODE("AddBackward0", "aten::add_(*)"));
  return s;
}

}  // namespace

/// Four parts, between which the ranks of a model's group meet: up to the MLP, the MLP, attention, the first norm.
void Training::backward_part(Process& p, int layer, int part) {
  if (part == 0) p.begin_place(step_, 1000 + static_cast<uint64_t>(layer));
  const uint32_t s = first_sequence_ + 1 + static_cast<uint32_t>(layer * kSequencesPerLayer);
  const auto run = [&](const OpScript& script, const std::vector<Role>& roles, uint32_t sequence) {
    p.spend(plan_.python_delay_ns + p.late_ns());  // Python hooks on the gradients
    p.run(script, roles, sequence);
  };
  if (part == 0) {
    if (plan_.custom_ns > 0) {
      p.open("my_ext::router_scan_backward", HostKind::op);
      p.launch(Role::custom, plan_.custom_ns);
      p.close();
    }
    run(add_backward(), {Role::add_grad}, s + 11);
    run(dropout_backward(), {Role::dropout_backward}, s + 10);
  } else if (part == 1) {
    run(linear_backward(), {Role::fc2_dgrad, Role::fc2_wgrad, Role::bias_sum}, s + 9);
    run(gelu_backward(), {Role::gelu_backward}, s + 8);
    run(linear_backward(), {Role::fc1_dgrad, Role::fc1_wgrad, Role::bias_sum}, s + 7);
  } else if (part == 2) {
    run(norm_backward(), {Role::norm_backward, Role::norm_weights_backward}, s + 6);
    if (plan_.syncs_per_layer > 0) {
      p.item(false);
      p.spend(plan_.sync_work_ns);
    }
    run(add_backward(), {Role::add_grad}, s + 5);
    run(dropout_backward(), {Role::dropout_backward}, s + 4);
    run(linear_backward(), {Role::proj_dgrad, Role::proj_wgrad, Role::bias_sum}, s + 3);
    run(attention_backward(), {Role::attention_backward}, s + 2);
    run(linear_backward(), {Role::qkv_dgrad, Role::qkv_wgrad, Role::bias_sum}, s + 1);
  } else {
    run(norm_backward(), {Role::norm_backward, Role::norm_weights_backward}, s);
  }
}

void Training::backward_layer(Process& p, int layer) {
  for (int part = 0; part < kLayerParts; ++part) backward_part(p, layer, part);
}

void Training::begin_backward(Process& p, bool has_head) {
  static const OpScript nll(NODE("NllLossBackward0", "aten::nll_loss_backward(aten::zero_(aten::fill_),*)"));
  static const OpScript log_softmax(NODE("LogSoftmaxBackward0", "aten::_log_softmax_backward_data(*)"));
  static const OpScript head(NODE("MmBackward0",
                                  "aten::t(aten::transpose(aten::as_strided)),aten::mm(*),aten::t(aten::transpose(aten:"
                                  ":as_strided)),aten::mm(#*)%") "," ACCUMULATE);
  const uint32_t tail = first_sequence_ + 2 + static_cast<uint32_t>(options_.layers * kSequencesPerLayer);
  p.begin_place(step_, 950);
  p.open_python("torch/_tensor.py(570): backward");
  p.switch_to(kAutogradThread, 48'000);
  if (!has_head) return;
  p.clear(16 << 20);
  p.run(nll, {Role::nll_backward}, tail + 2);
  p.run(log_softmax, {Role::log_softmax_backward}, tail + 1);
  p.run(head, {Role::head_dgrad, Role::head_wgrad}, tail);
  p.run(norm_backward(), {Role::norm_backward, Role::norm_weights_backward}, tail - 1);
}

void Training::backward_embedding(Process& p) {
  static const OpScript embed(
      NODE("EmbeddingBackward0",
           "aten::embedding_backward(aten::embedding_dense_backward(aten::zeros(aten::empty),*))") "," ACCUMULATE);
  p.begin_place(step_, 960);
  p.run(embed, {Role::embedding_backward}, first_sequence_);
}

void Training::end_backward(Process& p, bool reduced) {
  if (reduced) p.wait_event(kComputeStream, kCommStream);
  p.switch_to(kMainThread, 22'000);
  p.close_python();
}

void Training::backward(bool reduce) {
  const bool fsdp = options_.ranks > 1 && options_.strategy == Strategy::fsdp;
  const bool gradients = reduce && options_.strategy != Strategy::fsdp && layout_.size(layout_.data_slot()) > 1;
  for (Process& p : ranks_) begin_backward(p, true);
  for (int layer = options_.layers - 1; layer >= 0; --layer) {
    if (fsdp) {
      for (Process& p : ranks_) p.wait_event(kComputeStream, kCommStream);
      if (layer > 0) collective(Role::all_gather, kLayerParameters * 2, kWorld);
    }
    for (int part = 0; part < kLayerParts; ++part) {
      for (Process& p : ranks_) backward_part(p, layer, part);
      exchange(part, true);
    }
    if (gradients && plan_.overlap) reduce_bucket(kLayerParameters);
    if (fsdp) collective(Role::reduce_scatter, kLayerParameters * 2, kWorld);
  }
  for (Process& p : ranks_) backward_embedding(p);
  if (gradients && !plan_.overlap) {
    for (int layer = 0; layer < options_.layers; ++layer) reduce_bucket(kLayerParameters);
  }
  if (gradients) reduce_bucket(kEmbeddingParameters);
  for (Process& p : ranks_) end_backward(p, options_.ranks > 1 && reduce);
}

}  // namespace profgpu::sim
