// The backward pass on the autograd thread, and the collectives, in which the ranks meet.
#include <algorithm>

#include "tests/support/sim_training.h"

namespace profgpu::sim {
namespace {

#define NODE(name, children) "autograd::engine::evaluate_function: " name "/(" name "?(" children "))"
#define ACCUMULATE "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad(torch::autograd::AccumulateGrad(aten::detach(detach)))"
#define ADDMM_BACKWARD                                                                                              \
  NODE("AddmmBackward0", "aten::t(aten::transpose(aten::as_strided)),aten::mm(*),aten::t(aten::transpose(aten::as_strided)),aten::mm(#*)," \
                         "aten::t(aten::transpose(aten::as_strided)),aten::sum(*),aten::view()%")

const OpScript& linear_backward() {
  static const OpScript s(ADDMM_BACKWARD "," ACCUMULATE "," NODE("TBackward0", "aten::t(aten::transpose(aten::as_strided))") "," ACCUMULATE);
  return s;
}
const OpScript& norm_backward() {
  static const OpScript s(NODE("NativeLayerNormBackward0", "aten::native_layer_norm_backward(aten::empty_like(aten::empty_strided),**)") "," ACCUMULATE);
  return s;
}
const OpScript& attention_backward() {
  static const OpScript s(NODE("ScaledDotProductFlashAttentionBackward0",
                               "aten::_scaled_dot_product_flash_attention_backward(aten::transpose(aten::as_strided),aten::_flash_attention_backward(aten::empty_like(aten::empty_strided),~*))"));
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

void Training::backward_layer(Process& p, int layer) {
  p.begin_place(step_, 1000 + static_cast<uint64_t>(layer));
  const uint32_t s = first_sequence_ + 1 + static_cast<uint32_t>(layer * kSequencesPerLayer);
  const auto run = [&](const OpScript& script, const std::vector<Role>& roles, uint32_t sequence) {
    p.spend(plan_.python_delay_ns);  // Python hooks on the gradients
    p.run(script, roles, sequence);
  };
  if (plan_.custom_ns > 0) {
    p.open("my_ext::router_scan_backward", HostKind::op);
    p.launch(Role::custom, plan_.custom_ns);
    p.close();
  }
  run(add_backward(), {Role::add_grad}, s + 11);
  run(dropout_backward(), {Role::dropout_backward}, s + 10);
  run(linear_backward(), {Role::fc2_dgrad, Role::fc2_wgrad, Role::bias_sum}, s + 9);
  run(gelu_backward(), {Role::gelu_backward}, s + 8);
  run(linear_backward(), {Role::fc1_dgrad, Role::fc1_wgrad, Role::bias_sum}, s + 7);
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
  run(norm_backward(), {Role::norm_backward, Role::norm_weights_backward}, s);
}

void Training::backward(int index, bool reduce) {
  (void)index;
  const bool ddp = options_.ranks > 1 && reduce && options_.strategy == Strategy::ddp;
  const bool fsdp = options_.ranks > 1 && options_.strategy == Strategy::fsdp;
  const uint32_t tail = first_sequence_ + 2 + static_cast<uint32_t>(options_.layers * kSequencesPerLayer);
  static const OpScript nll(NODE("NllLossBackward0", "aten::nll_loss_backward(aten::zero_(aten::fill_),*)"));
  static const OpScript log_softmax(NODE("LogSoftmaxBackward0", "aten::_log_softmax_backward_data(*)"));
  static const OpScript head(NODE("MmBackward0", "aten::t(aten::transpose(aten::as_strided)),aten::mm(*),aten::t(aten::transpose(aten::as_strided)),aten::mm(#*)%") "," ACCUMULATE);
  static const OpScript embed(NODE("EmbeddingBackward0", "aten::embedding_backward(aten::embedding_dense_backward(aten::zeros(aten::empty),*))") "," ACCUMULATE);
  for (Process& p : ranks_) {
    p.begin_place(step_, 950);
    p.open_python("torch/_tensor.py(570): backward");
    p.switch_to(kAutogradThread, 48'000);
    p.clear(16 << 20);
    p.run(nll, {Role::nll_backward}, tail + 2);
    p.run(log_softmax, {Role::log_softmax_backward}, tail + 1);
    p.run(head, {Role::head_dgrad, Role::head_wgrad}, tail);
    p.run(norm_backward(), {Role::norm_backward, Role::norm_weights_backward}, tail - 1);
  }
  const int buckets = options_.layers + 1;
  const auto bucket = [&](int64_t parameters) {
    if (plan_.communication_ns == 0) return parameters * 2;
    const int64_t each = std::max<int64_t>(plan_.communication_ns / buckets - 12'000, 1000);
    const int n = options_.ranks;
    return each * facts(options_.gpu).bus_gbps * n / (2 * (n - 1)) / 2 * 2;
  };
  for (int layer = options_.layers - 1; layer >= 0; --layer) {
    if (fsdp) {
      for (Process& p : ranks_) p.wait_event(kComputeStream, kCommStream);
      if (layer > 0) collective(Role::all_gather, kLayerParameters * 2);
    }
    for (Process& p : ranks_) backward_layer(p, layer);
    if (ddp && plan_.overlap) collective(Role::all_reduce, bucket(kLayerParameters));
    if (fsdp) collective(Role::reduce_scatter, kLayerParameters * 2);
  }
  for (Process& p : ranks_) {
    p.begin_place(step_, 960);
    p.run(embed, {Role::embedding_backward}, first_sequence_);
  }
  if (ddp && !plan_.overlap) {
    for (int layer = 0; layer < options_.layers; ++layer) collective(Role::all_reduce, bucket(kLayerParameters));
  }
  if (ddp) collective(Role::all_reduce, bucket(kEmbeddingParameters));
  for (Process& p : ranks_) {
    if (options_.ranks > 1 && reduce) p.wait_event(kComputeStream, kCommStream);
    p.switch_to(kMainThread, 22'000);
    p.close_python();
  }
}

int64_t Training::transfer_ns(Role role, int64_t bytes) const {
  const int n = options_.ranks;
  const int64_t factor = role == Role::all_reduce ? 2 * (n - 1) : n - 1;
  const int64_t gbps = facts(options_.gpu).bus_gbps;
  return 9'000 + bytes / n * factor / gbps * 1000 / plan_.bus_permille;
}

void Training::collective(Role role, int64_t bytes) {
  const bool gather = role == Role::all_gather, scatter = role == Role::reduce_scatter;
  const int64_t elements = bytes / 2;
  const Collective what{gather ? "_allgather_base" : scatter ? "_reduce_scatter_base" : "allreduce", gather ? "nccl:_all_gather_base" : scatter ? "nccl:_reduce_scatter_base" : "nccl:all_reduce",
                        gather ? elements / options_.ranks : elements, scatter ? elements / options_.ranks : elements, 0};
  int64_t last = 0;
  for (Process& p : ranks_) last = std::max(last, p.arrive(role, what));
  Noise noise;
  noise.reseed(options_.seed, 4096, step_, 1 + collective_++);
  const int64_t end = last + noise.around(transfer_ns(role, bytes), 15);
  for (Process& p : ranks_) p.complete(end);
}

}  // namespace profgpu::sim
