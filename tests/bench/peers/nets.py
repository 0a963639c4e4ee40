"""nets.py: real models of timm and transformers for rows net/...: random weights, no dropout."""
import torch

MAKERS = {}


def maker(f):
    MAKERS[f.__name__] = f
    return f


def timm_net(name, kind):
    def make(batch, side):
        import timm
        return timm.create_model(kind), {"x": torch.randn(batch, 3, side, side)}
    MAKERS[name] = make


timm_net("resnet50", "resnet50")
timm_net("mobilenetv3_large", "mobilenetv3_large_100")
timm_net("convnext_tiny", "convnext_tiny")
timm_net("vit_base", "vit_base_patch16_224")


@maker
def bert_base(batch, length):
    import transformers
    config = transformers.BertConfig(num_hidden_layers=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return transformers.BertModel(config, add_pooling_layer=False), {"input_ids": torch.randint(3, 30000, (batch, length))}


@maker
def llama(batch, length):
    import transformers
    config = transformers.LlamaConfig(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=4,
                                      num_attention_heads=16, num_key_value_heads=4, max_position_embeddings=2048,
                                      use_cache=False)
    return transformers.LlamaForCausalLM(config), {"input_ids": torch.randint(3, 30000, (batch, length))}


def make(row):
    """(net, inputs by name, whether it is trained)"""
    batch, size, training = row.sizes
    torch.manual_seed(0)
    net, inputs = MAKERS[row.maker](batch, size)
    if next(iter(inputs)) == "x":  # timm's forward names its argument as it likes
        net, x = Positional(net), inputs["x"]
        inputs = {"x": x}
    return net.train(bool(training)), inputs, bool(training)


class Positional(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)


def first_output(result):
    return result if isinstance(result, torch.Tensor) else next(iter(result.values()))
