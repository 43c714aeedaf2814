"""--model-config counts the weights that the models of `transformers` have: each family is built on the meta device, from a
small config and some from the config that its class has, and both counts of weights are compared exactly. Norms and
biases do not count."""
import pytest

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')

ENDS = {'pad_token_id': 0, 'bos_token_id': 1, 'eos_token_id': 2}
SMALL = {'hidden_size': 64, 'intermediate_size': 160, 'num_hidden_layers': 5, 'num_attention_heads': 4, 'num_key_value_heads': 2,
         'vocab_size': 1000, **ENDS}
EVEN = {key: value for key, value in SMALL.items() if key != 'num_key_value_heads'}
HEAD = {'head_dim': 24}
OLDER = {'n_embd': 64, 'n_layer': 3, 'n_head': 4, 'vocab_size': 1000, **ENDS}
LATENT = {'q_lora_rank': 24, 'kv_lora_rank': 16, 'qk_nope_head_dim': 16, 'qk_rope_head_dim': 8, 'v_head_dim': 20}
CHOSEN = {'num_experts_per_tok': 2, 'moe_intermediate_size': 48}
LOCAL = {'num_local_experts': 6, 'num_experts_per_tok': 2}
NEXT = {'linear_num_value_heads': 4, 'linear_num_key_heads': 2, 'linear_key_head_dim': 16, 'linear_value_head_dim': 24,
        'linear_conv_kernel_dim': 3, 'shared_expert_intermediate_size': 96}
SCAN = {'hidden_size': 64, 'num_hidden_layers': 3, 'state_size': 8, 'vocab_size': 1000, 'expand': 2, 'conv_kernel': 4, **ENDS}
FAMILIES = {
    **{name: SMALL for name in ('llama', 'mistral', 'qwen2', 'phi3', 'olmo', 'olmo2', 'stablelm', 'granite', 'cohere', 'exaone4',
                                'smollm3', 'starcoder2', 'phi')},
    **{name: SMALL | HEAD for name in ('gemma', 'gemma2', 'gemma3_text', 'qwen3', 'glm', 'glm4', 'cohere2', 'ernie4_5', 'seed_oss',
                                       'hunyuan_v1_dense')},
    'qwen3 without head_dim': SMALL, 'gemma3_text without head_dim': SMALL, 'glm4 without head_dim': SMALL,
    **{name: SMALL | LOCAL for name in ('mixtral', 'phimoe', 'granitemoe')},
    'olmoe': SMALL | {'num_experts': 6, 'num_experts_per_tok': 2},
    'gpt_oss': SMALL | LOCAL | HEAD,
    'qwen2_moe': SMALL | CHOSEN | {'num_experts': 6, 'shared_expert_intermediate_size': 100, 'mlp_only_layers': [1]},
    'qwen3_moe': SMALL | CHOSEN | HEAD | {'num_experts': 6, 'decoder_sparse_step': 2, 'mlp_only_layers': [3]},
    'qwen3_next': SMALL | CHOSEN | HEAD | NEXT | {'num_experts': 6},
    'llama4_text': SMALL | HEAD | {'num_local_experts': 6, 'num_experts_per_tok': 1, 'intermediate_size_mlp': 200,
                                   'interleave_moe_layer_step': 2},
    'glm4_moe': SMALL | CHOSEN | HEAD | {'n_routed_experts': 6, 'n_shared_experts': 1, 'first_k_dense_replace': 1},
    'deepseek_v2': SMALL | CHOSEN | LATENT | {'n_routed_experts': 6, 'n_shared_experts': 2, 'first_k_dense_replace': 1},
    'deepseek_v3': SMALL | CHOSEN | LATENT | {'n_routed_experts': 8, 'n_shared_experts': 1, 'first_k_dense_replace': 2, 'n_group': 2,
                                              'topk_group': 1},
    'mamba': SCAN, 'falcon_mamba': SCAN | {'time_step_rank': 6},
    'mamba2': SCAN | {'num_heads': 8, 'head_dim': 16, 'n_groups': 2},
    'jamba': SMALL | {'num_experts': 4, 'num_experts_per_tok': 2, 'attn_layer_period': 2, 'attn_layer_offset': 1,
                      'expert_layer_period': 3, 'expert_layer_offset': 1, 'mamba_d_state': 8, 'mamba_dt_rank': 6},
    'gpt2': OLDER | {'n_positions': 128}, 'gptj': OLDER | {'rotary_dim': 8}, 'gpt_bigcode': OLDER | {'n_positions': 128},
    'bloom': {'hidden_size': 64, 'n_layer': 3, 'n_head': 4, 'vocab_size': 1000, **ENDS},
    'falcon': {'hidden_size': 64, 'num_hidden_layers': 3, 'num_attention_heads': 4, 'vocab_size': 1000, **ENDS},
    'falcon with few key heads': {'hidden_size': 64, 'num_hidden_layers': 3, 'num_attention_heads': 4, 'vocab_size': 1000,
                                  'new_decoder_architecture': True, 'num_kv_heads': 2, **ENDS},
    'opt': {'hidden_size': 64, 'ffn_dim': 160, 'num_hidden_layers': 3, 'num_attention_heads': 4, 'vocab_size': 1000,
            'word_embed_proj_dim': 64, 'max_position_embeddings': 128, **ENDS},
    'gpt_neo': {'hidden_size': 64, 'num_layers': 4, 'num_heads': 4, 'attention_types': [[['global', 'local'], 2]], 'vocab_size': 1000,
                'max_position_embeddings': 128, **ENDS},
    'gpt_neox': EVEN, 'bert': EVEN, 'roberta': EVEN, 'xlm-roberta': EVEN,
    'distilbert': {'dim': 64, 'hidden_dim': 160, 'n_layers': 3, 'n_heads': 4, 'vocab_size': 1000, **ENDS},
}
AS_THEY_ARE = ('llama', 'gemma2', 'gpt2', 'bert', 'mixtral', 'phimoe', 'gpt_oss', 'qwen3_moe', 'qwen3_next', 'mamba', 'mamba2', 'jamba')
MASKED = {'bert', 'roberta', 'xlm-roberta', 'distilbert'}


def build(name, config):
    make = transformers.AutoModelForMaskedLM if name in MASKED else transformers.AutoModelForCausalLM
    with torch.device('meta'):
        model = make.from_config(config)
    config.architectures = [type(model).__name__]
    return model


def weights(model, config):
    """All that count, and those that a token's products use."""
    all_of_them, active = 0, 0
    experts = next((getattr(config, n) for n in ('num_local_experts', 'n_routed_experts', 'num_experts') if getattr(config, n, None)), 0)
    modules = dict(model.named_modules())
    for name, parameter in model.named_parameters():
        if parameter.dim() < 2 or name.endswith('bias'):
            continue
        all_of_them += parameter.numel()
        module = modules[name.rpartition('.')[0]]
        if isinstance(module, (torch.nn.Embedding, torch.nn.Conv1d)) or name.endswith('A_log'):
            continue
        if '.experts.' in name:
            active += parameter.numel() * config.num_experts_per_tok // experts
        elif module is not model.get_output_embeddings():
            active += parameter.numel()
    return all_of_them, active + model.get_output_embeddings().weight.numel()


@pytest.fixture(scope='module')
def counted(analyze, simulate, tmp_path_factory):
    trace = simulate('--steps', '3', '--layers', '1')
    folder = tmp_path_factory.mktemp('configs')

    def count(text):
        path = folder / 'config.json'
        path.write_text(text)
        return analyze(trace, '--model-config', path)['ranks'][0]['model']

    return count


@pytest.mark.parametrize('family', FAMILIES)
def test_weights_are_those_of_the_model(counted, family):
    name = family.split(' ')[0]
    config = transformers.CONFIG_MAPPING[name](**FAMILIES[family])
    model = build(name, config)
    got = counted(config.to_json_string())
    assert (got['parameters'], got['active_parameters']) == weights(model, config)


@pytest.mark.parametrize('name', AS_THEY_ARE)
def test_weights_of_the_size_that_the_class_has(counted, name):
    config = transformers.CONFIG_MAPPING[name]()
    got = counted(build(name, config) and config.to_json_string())
    assert (got['parameters'], got['active_parameters']) == weights(build(name, config), config)


def test_of_a_model_that_sees_the_language_model_counts(counted):
    text = transformers.CONFIG_MAPPING['gemma3_text'](**SMALL, head_dim=24)
    whole = transformers.CONFIG_MAPPING['gemma3'](text_config=text.to_dict())
    whole.architectures = ['Gemma3ForConditionalGeneration']
    got = counted(whole.to_json_string())
    assert got['type'] == 'gemma3_text'
    assert (got['parameters'], got['active_parameters']) == weights(build('gemma3_text', text), text)
    assert 'only the language model counts, and not what else the config describes' in got['notes']
    assert got['mfu_is_lower_bound'] in (True, None)


@pytest.mark.parametrize('name', ['t5', 'mt5'])
def test_models_of_two_halves_are_unknown_with_the_reason(counted, name):
    got = counted(transformers.CONFIG_MAPPING[name]().to_json_string())
    assert got['parameters'] is None and 'passes through its encoder or its decoder' in got['notes'][0]
