// One training step, phase by phase; the backward pass and its collectives are in sim_backward.cc.
#include "tests/support/sim_training.h"

#include <algorithm>

namespace profgpu::sim {
namespace {

constexpr int64_t kBatchBytes = 2 << 20;

const OpScript& linear() {
  static const OpScript s("aten::linear(aten::t(aten::transpose(aten::as_strided)),aten::addmm!(@*),aten::view)");
  return s;
}
const OpScript& layer_norm() {
  static const OpScript s("aten::layer_norm(aten::native_layer_norm!(aten::empty,aten::empty,aten::empty,*))");
  return s;
}
const OpScript& attention() {
  static const OpScript s(
      "aten::scaled_dot_product_attention(aten::_scaled_dot_product_flash_attention!(aten::transpose(aten::as_strided),"
      "aten::transpose(aten::as_strided),"
      "aten::transpose(aten::as_strided),aten::_flash_attention_forward(aten::empty_like(aten::empty_strided),~*)))");
  return s;
}
const OpScript& slow_attention() {
  static const OpScript s(
      "aten::scaled_dot_product_attention(aten::_scaled_dot_product_attention_math!(aten::transpose(aten::as_strided),"
      "aten::matmul(aten::expand(aten::as_strided),aten::bmm(*)),"
      "aten::softmax(aten::_softmax(*)),aten::matmul(aten::expand(aten::as_strided),aten::bmm(~*))))");
  return s;
}
const OpScript& gelu() {
  static const OpScript s("aten::gelu!(*)");
  return s;
}
const OpScript& dropout() {
  static const OpScript s("aten::dropout(aten::native_dropout!(aten::empty_like(aten::empty_strided),*))");
  return s;
}
const OpScript& add() {
  static const OpScript s("aten::add!(*)");
  return s;
}

}  // namespace

Training::Training(const SimOptions& options, const Plan& plan, const Layout& layout)
    : options_(options), plan_(plan), layout_(layout), ends_(layout.ranks.size()), next_end_(layout.ranks.size()) {
  for (int rank = 0; rank < options.ranks; ++rank) add_rank(rank);
}

Training::Training(const SimOptions& options, const Plan& plan, const Layout& layout, int rank,
                   const CollectiveEnds& known)
    : options_(options), plan_(plan), layout_(layout), known_(&known), next_end_(layout.ranks.size()) {
  add_rank(rank);
}

void Training::add_rank(int rank) {
  const int64_t parameters = options_.layers * kLayerParameters + kEmbeddingParameters;
  const int64_t capacity = facts(options_.gpu).memory_bytes;
  const int64_t peak = capacity / 1000 * plan_.peak_permille;
  const int64_t fixed = std::min(parameters * 14, peak / 2);
  const bool holds_more = plan_.slack_permille > 100;
  const RankPlace& place = layout_.ranks[static_cast<size_t>(rank)];
  ProcessOptions p{options_.gpu,
                   rank,
                   options_.ranks,
                   place.local_rank % 8,
                   options_.seed,
                   options_.python_stacks,
                   options_.runtime_getters,
                   options_.compiled,
                   options_.cpu_only,
                   options_.sync_rows,
                   options_.drop_pct,
                   place.host_name,
                   place.clock,
                   layout_.groups_of(rank),
                   peak,
                   fixed,
                   holds_more ? peak / 1000 * (1000 + plan_.slack_permille) : peak / 100 * 97};
  ranks_.emplace_back(p, plan_);
  int live_layers = options_.layers * options_.micro_batches;
  if (options_.strategy == Strategy::pp && layout_.split()) {
    // A stage has its own layers only, and one micro-batch for itself and each stage after it.
    const int stages = layout_.size(kModel), stage = layout_.place_in_group(rank, kModel);
    live_layers = std::max(options_.layers / stages, 1) * std::min(options_.micro_batches, stages - stage);
  }
  ranks_.back().set_sizes((peak - fixed) / (live_layers * 4 + 1), parameters * 2 / (options_.layers * 4 + 1));
  ranks_.back().begin_place(0, 0);
  ranks_.back().spend(1 + rank * 1700);
}

void Training::pause(int64_t ns) {
  for (Process& p : ranks_) p.skip_to(p.now() + ns);
}

bool Training::is_slow(int rank) const {
  return slow_step_ && (options_.by_turns ? rank == turn_ : slow_rank(options_, rank));
}

void Training::begin(Process& p, int number, int index) {
  const bool is_long = plan_.long_every > 0 && index % plan_.long_every == 2 % plan_.long_every;
  const bool is_slow = this->is_slow(p.rank());
  const int64_t slow = is_slow ? plan_.slow_permille : 1000;
  p.set_compute_permille(is_long ? slow * plan_.long_permille / 1000 : slow);
  p.set_work_permille((is_slow ? plan_.work_permille : 1000) * plan_.batch_permille / 1000);
  p.set_batch_permille((is_slow ? plan_.work_permille : 1000) * plan_.batch_permille / 1000 *
                       (is_long ? plan_.long_permille : 1000) / 1000);
  p.set_late_ns(plan_.late_ns > 0 && slow_step_ && layout_.slow_host(options_, p.rank()) ? plan_.late_ns : 0);
  p.begin_step(number, true);
  load_batch(p);
  p.open("Optimizer.zero_grad#AdamW.zero_grad", HostKind::annotation);
  p.open_python("torch/optim/optimizer.py(926): zero_grad");
  p.drop_gradients();
  p.spend(30'000);
  p.close_python();
  p.close();
  if (plan_.collection_ns > 0) {
    p.open("Python GC", HostKind::annotation);
    p.spend(plan_.collection_ns);
    p.close();
  }
  if (plan_.unrecorded_ns > 0) p.wait_unrecorded(plan_.unrecorded_ns);
  if (plan_.load_ns > 0) p.load_kernels(plan_.load_ns);
  if (plan_.capture) p.begin_capture();
  if (plan_.decode) p.open("step[DECODE bs=32]", HostKind::annotation);
  if (index == 0 && plan_.warm_up_ns > 0) p.spend(plan_.warm_up_ns);
  if (options_.graph) {
    p.open("cudagraph_replay", HostKind::op);
    p.begin_graph();
  }
}

void Training::step(int number, int index, bool last) {
  step_ = static_cast<uint64_t>(number);
  index_ = index;
  // The last collective of a step has the number that the step before ended with.
  hanging_ = last && options_.hang_rank >= 0 ? collective_ : 0;
  collective_ = 0;
  slow_step_ = slow_step(options_, index);
  turn_ = index % options_.ranks;
  // The ranks of a step share its pace: what slows a machine slows all of them.
  Noise noise;
  noise.reseed(options_.seed, 4097, step_, 0);
  const int64_t pace = noise.around(1000 * (1000 + options_.slower_permille), options_.step_noise_permille);
  for (Process& p : ranks_) {
    p.begin_place(step_, 0);
    p.set_pace(pace);
    begin(p, number, index);
  }
  if (options_.strategy == Strategy::pp && layout_.split()) {
    pipeline();
  } else {
    for (int micro = 0; micro < options_.micro_batches; ++micro) {
      forward(micro);
      if (!plan_.decode) backward(micro + 1 == options_.micro_batches);
    }
  }
  for (Process& p : ranks_) {
    p.begin_place(step_, 900);
    if (!plan_.decode) optimizer(p);
  }
  gather_parameters();
  for (Process& p : ranks_) {
    if (options_.graph) {
      p.end_graph();
      p.close();
    }
    finish(p, index);
  }
}

void Training::load_batch(Process& p) {
  const int64_t begin = p.now();
  p.open(plan_.loader_in_process ? "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
                                 : "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
         HostKind::annotation);
  p.open_python("torch/utils/data/dataloader.py(702): __next__");
  if (plan_.loader_in_process) {
    static const OpScript decode(
        "aten::empty,aten::to(aten::_to_copy(aten::empty_strided,aten::copy_)),aten::div(aten::to),aten::permute(aten::"
        "as_strided)");
    static const OpScript collate("aten::stack(aten::cat),aten::pin_memory");
    for (int i = 0; i < 16; ++i) {
      p.spend(plan_.loader_ns / 17);
      p.run(decode, {});
    }
    p.run(collate, {});
    p.spend(plan_.loader_ns / 17);
  } else {
    p.spend(plan_.loader_ns);
  }
  if (is_slow(p.rank())) p.spend(plan_.slow_loader_ns);
  p.close_python();
  p.close();
  p.open("aten::to", HostKind::op);
  p.open("aten::_to_copy", HostKind::op);
  p.open("aten::copy_", HostKind::op);
  const bool amd = facts(options_.gpu).amd;
  if (plan_.pageable_bytes > 0) {
    p.copy(amd ? "Memcpy HtoD (Host -> Device)" : "Memcpy HtoD (Pageable -> Device)",
           static_cast<uint64_t>(plan_.pageable_bytes), facts(options_.gpu).pageable_gbps, true);
    p.wait_for(kComputeStream);
  } else {
    p.copy(amd ? "Memcpy HtoD (Host -> Device)" : "Memcpy HtoD (Pinned -> Device)",
           static_cast<uint64_t>(plan_.pinned_bytes > 0 ? plan_.pinned_bytes : kBatchBytes),
           facts(options_.gpu).pinned_gbps, false);
  }
  for (int i = 0; i < 3; ++i) p.close();
  if (plan_.decoy_ranges) {
    p.background_range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin, 30'000'000);
    p.background_range("save_checkpoint", begin + 31'000'000, 6'000'000);
  }
}

void Training::module(Process& p, const char* type, int number, const char* file, const OpScript& script,
                      const std::vector<Role>& roles, uint32_t sequence) {
  if (options_.python_stacks) {
    p.open_python(std::string("nn.Module: ") + type + "_" + std::to_string(number));
    p.open_python("torch/nn/modules/module.py(1739): _wrapped_call_impl");
    p.open_python("torch/nn/modules/module.py(1750): _call_impl");
    p.open_python(std::string("torch/nn/modules/") + file);
    p.open_python("torch/nn/modules/module.py(1915): __getattr__");
    p.close_python();
    p.open_python(std::string("<built-in function ") + file + ">");
  }
  p.spend(5200 + plan_.python_delay_ns + p.late_ns());
  p.run(script, roles, sequence);
  for (int i = 0; i < 5; ++i) p.close_python();
}

void Training::device_wait(Process& p) {
  if (plan_.host_function_ns == 0) return;
  p.wait_event(kSideStream, kComputeStream);
  p.host_function(kSideStream, plan_.host_function_ns / 3);
  p.wait_event(kComputeStream, kSideStream);
}

/// Four parts, between which the ranks of a model's group meet: attention, the second norm, the MLP, the rest.
void Training::forward_part(Process& p, int layer, int part) {
  if (part == 0) {
    p.begin_place(step_, static_cast<uint64_t>(layer) + 1);
    if (plan_.loses_records) p.record_device(layer < options_.layers / 4 || layer >= options_.layers * 3 / 4);
  }
  if (part == 0 && layer > 0 && compiled_piece(layer) != compiled_piece(layer - 1)) {
    leave_compiled(p);
    enter_compiled(p, layer);
  }
  const uint32_t s = first_sequence_ + 1 + static_cast<uint32_t>(layer * kSequencesPerLayer);
  const auto checks = [&](int budget) {
    for (int i = 0; i < budget; ++i) {
      p.item(false);
      p.spend(plan_.sync_work_ns);
    }
  };
  if (part == 0) {
    p.open_python("nn.Module: Block_" + std::to_string(layer));
    if (plan_.layout_ns > 0) {
      p.open("aten::contiguous", HostKind::op);
      p.open("aten::clone", HostKind::op);
      p.open("aten::copy_", HostKind::op);
      p.launch(Role::layout_copy, plan_.layout_ns);
      for (int i = 0; i < 3; ++i) p.close();
    }
    module(p, "LayerNorm", 2 * layer, "normalization.py(217): forward", layer_norm(), {Role::layer_norm}, s);
    module(p, "Linear", 4 * layer, "linear.py(125): forward", linear(), {Role::qkv_gemm}, s + 1);
    if (plan_.syncs_per_layer > 0) checks(1);
    if (plan_.full_precision || plan_.write_scores)
      module(p, "Attention", layer, "activation.py(1190): forward", slow_attention(),
             {Role::attention_scores, Role::attention_softmax, Role::attention_output}, s + 2);
    else module(p, "Attention", layer, "activation.py(1190): forward", attention(), {Role::attention}, s + 2);
    module(p, "Linear", 4 * layer + 1, "linear.py(125): forward", linear(), {Role::proj_gemm}, s + 3);
  } else if (part == 1) {
    module(p, "Dropout", 2 * layer, "dropout.py(70): forward", dropout(), {Role::dropout}, s + 4);
    p.run(add(), {Role::add}, s + 5);
    if (plan_.syncs_per_layer > 1) checks(1);
    module(p, "LayerNorm", 2 * layer + 1, "normalization.py(217): forward", layer_norm(), {Role::layer_norm}, s + 6);
  } else if (part == 2) {
    module(p, "Linear", 4 * layer + 2, "linear.py(125): forward", linear(), {Role::fc1_gemm}, s + 7);
    module(p, "GELU", layer, "activation.py(734): forward", gelu(), {Role::gelu}, s + 8);
    module(p, "Linear", 4 * layer + 3, "linear.py(125): forward", linear(), {Role::fc2_gemm}, s + 9);
  } else {
    module(p, "Dropout", 2 * layer + 1, "dropout.py(70): forward", dropout(), {Role::dropout}, s + 10);
    p.run(add(), {Role::add}, s + 11);
    if (plan_.syncs_per_layer > 2) checks(plan_.syncs_per_layer - 2);
    for (int i = 0; plan_.chain_ns > 0 && i < 6; ++i) {
      p.open(i % 2 == 0 ? "aten::mul" : "aten::add", HostKind::op);
      p.launch(Role::add, plan_.chain_ns / 6);
      p.close();
    }
    if (plan_.custom_ns > 0) {
      p.open("my_ext::router_scan", HostKind::op);
      p.launch(Role::custom, plan_.custom_ns);
      p.close();
    }
    p.close_python();
  }
}

void Training::forward_layer(Process& p, int layer) {
  for (int part = 0; part < kLayerParts; ++part) forward_part(p, layer, part);
}

/// What Dynamo compiled of the forward pass at this layer: which piece of it, counted from 0.
int Training::compiled_piece(int layer) const {
  return std::min(layer * (plan_.graph_breaks + 1) / std::max(options_.layers, 1), plan_.graph_breaks);
}

/// After a break Dynamo resumes in a function of its own.
void Training::enter_compiled(Process& p, int layer) {
  if (plan_.by_dynamo()) {
    const int version = std::clamp(index_ - 2, 0, plan_.recompiled_steps), piece = compiled_piece(layer);
    if (piece == 0 && version > 0 && index_ - 2 == version) {
      p.open("_compile.compile_inner (dynamo_timed)", HostKind::op);
      p.spend(plan_.compile_ns);
      p.close();
    }
    const std::string line = std::to_string(40 + 3 * piece);
    p.open_python("train.py(" + line + "): " + (piece == 0 ? "forward" : "torch_dynamo_resume_in_forward_at_" + line));
    p.open("Torch-Compiled Region: " + std::to_string(piece) + "/" + std::to_string(version), HostKind::annotation);
  }
  if (options_.compiled)
    p.open("## Call CompiledFxGraph fal4xpiah2v6blbfmwwonu52dvevbsmlh743q5tkclrt4gcqpzea ##", HostKind::annotation);
}

void Training::leave_compiled(Process& p) {
  if (options_.compiled) p.close();
  if (!plan_.by_dynamo()) return;
  p.close();
  p.close_python();
}

void Training::begin_forward(Process& p, int micro) {
  p.begin_place(step_, 800 + static_cast<uint64_t>(micro));
  first_sequence_ = p.next_sequence();
  for (int i = 0; i < options_.layers * kSequencesPerLayer + 8; ++i) p.next_sequence();
  if (options_.ranks > 1) p.open(wrapper(), HostKind::annotation);
  enter_compiled(p, 0);
}

void Training::embed(Process& p) {
  static const OpScript embedding(
      "aten::embedding!(aten::reshape(aten::view),aten::index_select(aten::empty,*),aten::view)");
  module(p, "Embedding", 0, "sparse.py(190): forward", embedding, {Role::embedding}, first_sequence_);
  device_wait(p);
}

void Training::end_forward(Process& p, bool has_head) {
  if (has_head)
    module(p, "LayerNorm", 2 * options_.layers, "normalization.py(217): forward", layer_norm(), {Role::layer_norm},
           first_sequence_ + 1 + static_cast<uint32_t>(options_.layers * kSequencesPerLayer));
  leave_compiled(p);
  if (options_.ranks > 1) p.close();
  if (has_head) loss(p);
}

void Training::forward(int micro) {
  const bool fsdp = options_.strategy == Strategy::fsdp && options_.ranks > 1;
  for (Process& p : ranks_) {
    begin_forward(p, micro);
    embed(p);
  }
  for (int layer = 0; layer < options_.layers; ++layer) {
    if (fsdp) {
      if (layer == 0) collective(Role::all_gather, kLayerParameters * 2, kWorld);
      for (Process& p : ranks_) p.wait_event(kComputeStream, kCommStream);
      if (layer + 1 < options_.layers) collective(Role::all_gather, kLayerParameters * 2, kWorld);
    }
    for (int part = 0; part < kLayerParts; ++part) {
      for (Process& p : ranks_) forward_part(p, layer, part);
      exchange(part, false);
    }
  }
  for (Process& p : ranks_) end_forward(p, true);
}

void Training::loss(Process& p) {
  if (plan_.late_bytes > 0) {
    p.open("aten::to", HostKind::op);
    p.copy(facts(options_.gpu).amd ? "Memcpy HtoD (Host -> Device)" : "Memcpy HtoD (Pinned -> Device)",
           static_cast<uint64_t>(plan_.late_bytes), facts(options_.gpu).pinned_gbps, false);
    p.close();
  }
  const uint32_t s = first_sequence_ + 2 + static_cast<uint32_t>(options_.layers * kSequencesPerLayer);
  module(p, "Linear", 4 * options_.layers, "linear.py(125): forward", linear(), {Role::head_gemm}, s);
  static const OpScript cross_entropy(
      "aten::cross_entropy_loss(aten::log_softmax(aten::_log_softmax!(aten::empty_like(aten::empty_strided),*)))");
  static const OpScript nll("aten::nll_loss_nd(aten::nll_loss(aten::nll_loss_forward!(aten::resize_,*)))");
  module(p, "CrossEntropyLoss", 0, "loss.py(1293): forward", cross_entropy, {Role::log_softmax}, s + 1);
  p.run(nll, {Role::nll}, s + 2);
  device_wait(p);
}

void Training::optimizer(Process& p) {
  p.open("Optimizer.step#AdamW.step", HostKind::annotation);
  p.open_python("torch/optim/adamw.py(62): step");
  static const OpScript norm("aten::_foreach_norm(aten::empty,****)");
  p.run(norm, {Role::grad_norm, Role::grad_norm, Role::grad_norm, Role::grad_norm});
  device_wait(p);
  if (plan_.loop_optimizer) {
    loop_optimizer(p);
  } else {
    static const OpScript fused("aten::_fused_adamw_(********)");
    if (shares_optimizer())
      p.set_compute_permille(std::max(1, 1000 / options_.ranks));  // of the state, and so the work
    p.run(fused, std::vector<Role>(8, Role::fused_adam));
  }
  p.spend(40'000);
  p.close_python();
  p.close();
}

void Training::loop_optimizer(Process& p) {
  static const OpScript one(
      "aten::mul_(*),aten::lerp_(*),aten::mul_(*),aten::addcmul_(*),aten::sqrt(*),aten::div(*),aten::add_(*),aten::"
      "addcdiv_(*)");
  const std::vector<Role> roles = {Role::loop_mul,  Role::loop_add, Role::loop_mul, Role::loop_addcmul,
                                   Role::loop_sqrt, Role::loop_mul, Role::loop_add, Role::loop_addcdiv};
  const int parameters = static_cast<int>((options_.layers * 12 + 4) * plan_.loop_permille / 1000);
  for (int i = 0; i < std::max(parameters, 14); ++i) {
    p.spend(6000);
    p.run(one, roles);
  }
}

void Training::finish(Process& p, int index) {
  if (plan_.capture) p.end_capture();
  if (plan_.decode) {
    while (p.holds_activations()) p.give_back();   // no backward pass wants them
    p.close();
  }
  p.item(true);
  p.spend(plan_.request_wait_ns);
  for (int i = 0; i < plan_.value_reads; ++i) p.item(false);
  p.spend(9'000);
  if (plan_.leak_bytes > 0) p.leak(plan_.leak_bytes);
  if (plan_.churned_segments > 0) {
    p.open_python("torch/cuda/memory.py(222): empty_cache");
    p.empty_cache(plan_.churned_segments, plan_.churn_call_ns);
    p.close_python();
  }
  if (plan_.checkpoint_every > 0 && index % plan_.checkpoint_every == 2 % plan_.checkpoint_every) {
    p.open("save_checkpoint", HostKind::annotation);
    for (int i = 0; i < 12; ++i) {
      p.open("aten::to", HostKind::op);
      p.open("aten::_to_copy", HostKind::op);
      p.open("aten::copy_", HostKind::op);
      p.copy(facts(options_.gpu).amd ? "Memcpy DtoH (Device -> Host)" : "Memcpy DtoH (Device -> Pinned)", 4 << 20, 20,
             false);
      p.wait_for(kComputeStream);
      for (int k = 0; k < 3; ++k) p.close();
      p.spend(plan_.checkpoint_ns / 13);
    }
    p.spend(plan_.checkpoint_ns / 13);
    p.close();
  }
  p.end_step();
}

}  // namespace profgpu::sim
