"""models.py: 41 real models of transformers, timm, diffusers and torch.nn, made small by their configs, with random weights.

`MODELS[name]()` gives (model, inputs): inputs is a dict of keyword arguments, or a tuple. `length(name, inputs, n)` gives
inputs of another length for the models in `DYNAMIC`. What a model gives is reduced to tensors by `tensors_of`.
"""
import torch

MODELS, DYNAMIC, PUSH = {}, [], ["llama", "bert", "resnet18", "lstm"]
VOCABULARY, HIDDEN, BATCH, LENGTH = 96, 32, 2, 12


def model(name, dynamic=False):
    def add(make):
        MODELS[name] = make
        if dynamic:
            DYNAMIC.append(name)
        return make
    return add


def ids(length=LENGTH):
    return torch.randint(3, VOCABULARY - 1, (BATCH, length))


# Decoders, encoders --------------------------------------------------------------------------------------------------

DECODER = dict(vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=64, num_hidden_layers=2,
               num_attention_heads=4, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
ENCODER = dict(DECODER, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def text_model(name, config, kind="AutoModelForCausalLM", dynamic=True, **settings):
    @model(name, dynamic)
    def make():
        import transformers
        made = getattr(transformers, config)(**settings)
        made._experts_implementation = "batched_mm"  # grouped_mm takes no f64
        return getattr(transformers, kind).from_config(made), {"input_ids": ids(), **EXTRA.get(kind, {})}


EXTRA = {"AutoModelForCausalLM": {"use_cache": False}}
text_model("llama", "LlamaConfig", **DECODER, num_key_value_heads=2)
text_model("qwen2", "Qwen2Config", **DECODER, num_key_value_heads=2)
text_model("qwen3", "Qwen3Config", **DECODER, num_key_value_heads=2, head_dim=8)
text_model("mistral", "MistralConfig", **DECODER, num_key_value_heads=1, sliding_window=8)
text_model("mixtral", "MixtralConfig", dynamic=False, **DECODER, num_key_value_heads=2, num_local_experts=4,
           num_experts_per_tok=2)
text_model("gemma", "GemmaConfig", **DECODER, num_key_value_heads=1, head_dim=8)
text_model("phi", "PhiConfig", **DECODER)
text_model("gpt_neox", "GPTNeoXConfig", **DECODER)
text_model("gpt2", "GPT2Config", vocab_size=VOCABULARY, n_embd=HIDDEN, n_layer=2, n_head=4, n_positions=64,
           attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0, bos_token_id=1, eos_token_id=2)
text_model("opt", "OPTConfig", vocab_size=VOCABULARY, hidden_size=HIDDEN, ffn_dim=64, num_hidden_layers=2,
           num_attention_heads=4, max_position_embeddings=64, word_embed_proj_dim=HIDDEN, dropout=0.0, pad_token_id=0)
text_model("bloom", "BloomConfig", vocab_size=VOCABULARY, hidden_size=HIDDEN, n_layer=2, n_head=4, pad_token_id=0)
text_model("falcon", "FalconConfig", vocab_size=VOCABULARY, hidden_size=HIDDEN, num_hidden_layers=2,
           num_attention_heads=4, pad_token_id=0)
text_model("mamba", "MambaConfig", vocab_size=VOCABULARY, hidden_size=HIDDEN, state_size=4, num_hidden_layers=2,
           pad_token_id=0)
text_model("mamba2", "Mamba2Config", dynamic=False, vocab_size=VOCABULARY, hidden_size=HIDDEN, state_size=8,
           num_hidden_layers=2, num_heads=8, head_dim=8, n_groups=1, chunk_size=8, pad_token_id=0)
text_model("bert", "BertConfig", "AutoModel", **ENCODER)
text_model("roberta", "RobertaConfig", "AutoModel", **ENCODER)
text_model("electra", "ElectraConfig", "AutoModel", **ENCODER, embedding_size=16)
text_model("albert", "AlbertConfig", "AutoModel", **ENCODER, embedding_size=16)
text_model("distilbert", "DistilBertConfig", "AutoModel", vocab_size=VOCABULARY, dim=HIDDEN, hidden_dim=64, n_layers=2,
           n_heads=4, max_position_embeddings=64, dropout=0.0, attention_dropout=0.0)
text_model("deberta", "DebertaV2Config", "AutoModel", dynamic=False, **ENCODER, relative_attention=True,
           pos_att_type=["p2c", "c2p"], position_buckets=8)
text_model("fnet", "FNetConfig", "AutoModel", dynamic=False, vocab_size=VOCABULARY, hidden_size=HIDDEN,
           num_hidden_layers=2, intermediate_size=64, max_position_embeddings=64, hidden_dropout_prob=0.0)


@model("t5", True)
def t5():
    import transformers
    config = transformers.T5Config(vocab_size=VOCABULARY, d_model=HIDDEN, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                                   dropout_rate=0.0, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config), {"input_ids": ids(), "labels": ids(), "use_cache": False}


@model("bart", True)
def bart():
    import transformers
    config = transformers.BartConfig(vocab_size=VOCABULARY, d_model=HIDDEN, encoder_layers=2, decoder_layers=2,
                                     encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
                                     decoder_ffn_dim=64, max_position_embeddings=64, dropout=0.0, pad_token_id=0)
    return transformers.BartModel(config), {"input_ids": ids(), "decoder_input_ids": ids(), "use_cache": False}


# Images, sound -------------------------------------------------------------------------------------------------------


def image_model(name, config, kind, size, **settings):
    @model(name)
    def make():
        import transformers
        made = getattr(transformers, config)(**settings)
        return getattr(transformers, kind)(made), {"pixel_values": torch.randn(BATCH, 3, size, size)}


image_model("vit", "ViTConfig", "ViTModel", 32, hidden_size=HIDDEN, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, image_size=32, patch_size=8, hidden_dropout_prob=0.0)
image_model("swin", "SwinConfig", "SwinModel", 32, image_size=32, patch_size=4, embed_dim=16, depths=[2, 2],
            num_heads=[2, 4], window_size=4, drop_path_rate=0.0)
image_model("segformer", "SegformerConfig", "SegformerModel", 64, depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32],
            num_attention_heads=[1, 2, 2, 4], drop_path_rate=0.0, hidden_dropout_prob=0.0)


@model("clip")
def clip():
    import transformers
    tower = dict(hidden_size=HIDDEN, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
    config = transformers.CLIPConfig(text_config=dict(tower, vocab_size=VOCABULARY, max_position_embeddings=32),
                                     vision_config=dict(tower, image_size=32, patch_size=8), projection_dim=16)
    return transformers.CLIPModel(config), {"input_ids": ids(), "pixel_values": torch.randn(BATCH, 3, 32, 32)}


@model("whisper")
def whisper():
    import transformers
    config = transformers.WhisperConfig(vocab_size=VOCABULARY, d_model=HIDDEN, encoder_layers=2, decoder_layers=2,
                                        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
                                        decoder_ffn_dim=64, num_mel_bins=16, max_source_positions=30,
                                        max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                        decoder_start_token_id=1, dropout=0.0)
    return transformers.WhisperModel(config), {"input_features": torch.randn(BATCH, 16, 60),
                                               "decoder_input_ids": ids(8), "use_cache": False}


@model("wav2vec2")
def wav2vec2():
    import transformers
    config = transformers.Wav2Vec2Config(hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=4,
                                         intermediate_size=64, conv_dim=(16, 16), conv_stride=(4, 4), conv_kernel=(8, 4),
                                         num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4,
                                         num_feat_extract_layers=2, hidden_dropout=0.0, attention_dropout=0.0,
                                         feat_proj_dropout=0.0, layerdrop=0.0, mask_time_prob=0.0)
    return transformers.Wav2Vec2Model(config), {"input_values": torch.randn(BATCH, 800)}


def timm_model(name, kind, size=64, **settings):
    @model(name)
    def make():
        import timm
        return timm.create_model(kind, num_classes=10, **settings), (torch.randn(BATCH, 3, size, size),)


timm_model("resnet18", "resnet18")
timm_model("mobilenetv3", "mobilenetv3_small_050")
timm_model("efficientnet", "efficientnet_b0")
timm_model("convnext", "convnext_atto")
timm_model("regnet", "regnety_002")
timm_model("mixer", "mixer_s32_224", img_size=64)


# Diffusion -----------------------------------------------------------------------------------------------------------


@model("unet")
def unet():
    import diffusers
    net = diffusers.UNet2DModel(sample_size=16, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8,
                                down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                                up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8)
    return net, {"sample": torch.randn(BATCH, 3, 16, 16), "timestep": torch.tensor(7)}


@model("unet_condition")
def unet_condition():
    import diffusers
    net = diffusers.UNet2DConditionModel(sample_size=16, block_out_channels=(16, 32), layers_per_block=1,
                                         norm_num_groups=8, cross_attention_dim=16, attention_head_dim=8,
                                         down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                                         up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"))
    return net, {"sample": torch.randn(BATCH, 4, 16, 16), "timestep": torch.tensor(7),
                 "encoder_hidden_states": torch.randn(BATCH, 6, 16)}


@model("vae")
def vae():
    import diffusers
    net = diffusers.AutoencoderKL(block_out_channels=(16, 32), norm_num_groups=8, layers_per_block=1,
                                  down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2)
    return net, (torch.randn(BATCH, 3, 16, 16),)


@model("dit")
def dit():
    import diffusers
    net = diffusers.DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=16, in_channels=4, num_layers=2,
                                          sample_size=8, norm_num_groups=8, num_embeds_ada_norm=10, dropout=0.0)
    return net, {"hidden_states": torch.randn(BATCH, 4, 8, 8), "timestep": torch.tensor([3, 5]),
                 "class_labels": torch.tensor([1, 2])}


# Recurrent -----------------------------------------------------------------------------------------------------------


class Recurrent(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, HIDDEN)
        self.net = getattr(torch.nn, kind)(HIDDEN, HIDDEN, num_layers=2, batch_first=True)
        self.head = torch.nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, input_ids):
        return self.head(self.net(self.embed(input_ids))[0])


@model("lstm")
def lstm():
    return Recurrent("LSTM"), {"input_ids": ids()}


@model("gru")
def gru():
    return Recurrent("GRU"), {"input_ids": ids()}


# Use -----------------------------------------------------------------------------------------------------------------


def make(name, seed=0):
    torch.manual_seed(seed)
    net, inputs = MODELS[name]()
    return net.eval(), inputs


def call(net, inputs):
    return net(**inputs) if isinstance(inputs, dict) else net(*inputs)


def length(inputs, n):
    """The same inputs with sequences of another length."""
    return {k: torch.randint(3, VOCABULARY - 1, (BATCH, n)) if isinstance(v, torch.Tensor) and v.dtype == torch.int64
            else v for k, v in inputs.items()}


def tensors_of(result):
    """All float tensors of a result, in their order."""
    if isinstance(result, torch.Tensor):
        return [result] if result.is_floating_point() else []
    if isinstance(result, dict):
        result = list(result.values())
    elif hasattr(result, "sample") and isinstance(getattr(result, "sample"), torch.Tensor):
        result = [result.sample]
    if isinstance(result, (list, tuple)):
        return [t for r in result for t in tensors_of(r)]
    return []


def loss_of(result):
    """A number that depends on all elements, of size 1 whatever the model gives."""
    return sum((t.float() * torch.linspace(-1, 1, t.numel(), dtype=torch.float32).view(t.shape)).sum()
               for t in tensors_of(result) if t.requires_grad)
