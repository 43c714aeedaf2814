// How large the healthy run's work is, and the plan that a list of faults makes of it.
#include "tests/support/sim_training.h"

namespace profgpu::sim {

Scale scale_of(const SimOptions& options) {
  const auto ns = [&](Role r) { return kernel(options.gpu, r, false, false).duration_ns; };
  Scale scale;
  for (int r = static_cast<int>(Role::layer_norm); r <= static_cast<int>(Role::fc2_gemm); ++r) {
    const Role role = static_cast<Role>(r);
    if (role == Role::attention_scores || role == Role::attention_softmax || role == Role::attention_output) continue;
    scale.layer_ns += ns(role) * (role == Role::layer_norm || role == Role::dropout || role == Role::add ? 2 : 1);
  }
  int64_t back = 0, head = ns(Role::embedding) + ns(Role::layer_norm);
  for (int r = static_cast<int>(Role::fc2_dgrad); r <= static_cast<int>(Role::qkv_wgrad); ++r) {
    const Role role = static_cast<Role>(r);
    back +=
        ns(role) *
        (role == Role::norm_backward || role == Role::norm_weights_backward || role == Role::dropout_backward ? 2 : 1);
  }
  back += 4 * ns(Role::bias_sum) + 2 * ns(Role::add_grad);
  for (int r = static_cast<int>(Role::head_gemm); r <= static_cast<int>(Role::embedding_backward); ++r)
    head += ns(static_cast<Role>(r));
  scale.step_ns = (options.layers * (scale.layer_ns + back) + head) * options.micro_batches + 8 * ns(Role::fused_adam) +
                  4 * ns(Role::grad_norm);
  scale.ranks = options.ranks;
  scale.steps = options.steps * options.windows;
  scale.layers = options.layers;
  scale.capacity_bytes = facts(options.gpu).memory_bytes;
  return scale;
}

Plan plan_of(const SimOptions& options) {
  Plan plan;
  const Scale scale = scale_of(options);
  for (const FaultUse& use : options.faults) {
    if (const Fault* f = find_fault(use.name)) f->apply(plan, static_cast<int64_t>(use.severity * 1000 + 0.5), scale);
  }
  return plan;
}

}  // namespace profgpu::sim
