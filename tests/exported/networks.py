"""Networks as people export them, small and with random weights: what PyTorch's two exporters are given.

`cases.CASES` has the inputs of each by its name. Needs torch, and for the language models Hugging Face transformers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

NETWORKS: dict[str, Callable[[], nn.Module]] = {}


def network(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """Add a network, by the name of the function that makes it."""
    NETWORKS[make.__name__] = make
    return make


# --- images


class Block(nn.Module):
    def __init__(self, of: int, to: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(of, to, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(to, to, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(to), nn.BatchNorm2d(to)])
        self.short = nn.Sequential(nn.Conv2d(of, to, 1, stride, bias=False), nn.BatchNorm2d(to)) if of != to else None

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norms[0](self.one(x)))
        y = self.norms[1](self.two(y))
        return torch.relu(y + (x if self.short is None else self.short(x)))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.layers = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2))
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.flatten(self.pool(self.layers(self.stem(x))), 1))


@network
def resnet() -> nn.Module:
    return ResNet()


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.up, self.join, self.out = nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(8, 4, 3, padding=1), nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.down(x)
        b = self.up(self.deep(nn.functional.max_pool2d(a, 2)))
        rows, columns = a.shape[2] - b.shape[2], a.shape[3] - b.shape[3]
        b = nn.functional.pad(b, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
        return self.out(torch.relu(self.join(torch.cat([a, b], 1))))


class UNetResized(UNet):
    def forward(self, x: Tensor) -> Tensor:
        a = self.down(x)
        b = self.up(self.deep(nn.functional.max_pool2d(a, 2)))
        b = nn.functional.interpolate(b, size=a.shape[2:], mode="bilinear", align_corners=False)
        return self.out(torch.relu(self.join(torch.cat([a, b], 1))))


@network
def unet() -> nn.Module:
    return UNet()


@network
def unet_resized() -> nn.Module:
    return UNetResized()


# --- language models


class Field(nn.Module):
    """Some fields of what a model of transformers gives, as a tuple."""

    def __init__(self, model: nn.Module, *fields: str, **more: Any) -> None:
        super().__init__()
        self.model, self.fields, self.more = model.eval(), fields, more

    def shown(self, *args: Any, **named: Any) -> Any:
        out = self.model(*args, **named, **self.more)
        found = tuple(out[f] for f in self.fields)
        return found[0] if len(found) == 1 else found


class ByName(Field):
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return self.shown(input_ids=input_ids, attention_mask=attention_mask)


def small(model: str, config: str, **sizes: int) -> Any:
    """A model of transformers by the names of its class and its configuration's, with small sizes."""
    import transformers

    return getattr(transformers, model)(getattr(transformers, config)(**sizes))


@network
def bert() -> nn.Module:
    return ByName(
        small(
            "BertModel",
            "BertConfig",
            vocab_size=50,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=24,
            max_position_embeddings=32,
        ),
        "last_hidden_state",
        "pooler_output",
    )


@network
def distilbert() -> nn.Module:
    return ByName(
        small(
            "DistilBertModel",
            "DistilBertConfig",
            vocab_size=50,
            dim=16,
            n_layers=2,
            n_heads=2,
            hidden_dim=24,
            max_position_embeddings=32,
        ),
        "last_hidden_state",
    )


class Pixels(Field):
    def forward(self, image: Tensor) -> Any:
        return self.shown(image)


def _vit() -> Any:
    return small(
        "ViTModel",
        "ViTConfig",
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        image_size=16,
        patch_size=4,
    )


@network
def vit() -> nn.Module:
    return Pixels(
        _vit(),
        "last_hidden_state",
    )


@network
def vit_sizes() -> nn.Module:
    module = Pixels(
        _vit(),
        "last_hidden_state",
        interpolate_pos_encoding=True,
    )
    return module


def _t5() -> Any:
    return small(
        "T5ForConditionalGeneration",
        "T5Config",
        vocab_size=50,
        d_model=16,
        d_kv=8,
        d_ff=24,
        num_layers=2,
        num_heads=2,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=16,
        decoder_start_token_id=0,
    )


@network
def t5_encoder() -> nn.Module:
    return ByName(_t5().encoder, "last_hidden_state")


class Decoder(nn.Module):
    """A decoder beside an encoder's states, without a cache."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model.eval()

    def forward(self, input_ids: Tensor, encoder_hidden: Tensor, encoder_mask: Tensor) -> Tensor:
        from transformers.modeling_outputs import BaseModelOutput

        given = BaseModelOutput(last_hidden_state=encoder_hidden)
        out = self.model(
            decoder_input_ids=input_ids, encoder_outputs=given, attention_mask=encoder_mask, use_cache=False
        )
        return out["logits"]


@network
def t5_decoder() -> nn.Module:
    return Decoder(_t5())


class Cached(nn.Module):
    """A decoder with the keys and values of what came before, as flat inputs and outputs."""

    def __init__(self, model: Any, layers: int) -> None:
        super().__init__()
        self.model, self.layers = model.eval(), layers

    def forward(self, input_ids: Tensor, attention_mask: Tensor, *past: Tensor) -> Any:
        from transformers import DynamicCache

        cache = DynamicCache()
        for k in range(self.layers):
            cache.update(past[2 * k], past[2 * k + 1], k)
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        held = out["past_key_values"]
        flat = [t for layer in held.layers for t in (layer.keys, layer.values)]
        return (out["logits"], *flat)


def _gpt2() -> Any:
    return small("GPT2LMHeadModel", "GPT2Config", vocab_size=50, n_positions=32, n_embd=16, n_layer=2, n_head=2)


@network
def gpt2_past() -> nn.Module:
    return Cached(_gpt2(), 2)


@network
def gpt2() -> nn.Module:
    model = _gpt2()
    return ByName(model, "logits", use_cache=False)


def _llama() -> Any:
    return small(
        "LlamaForCausalLM",
        "LlamaConfig",
        vocab_size=50,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
    )


@network
def llama_past() -> nn.Module:
    return Cached(_llama(), 2)


@network
def llama() -> nn.Module:
    return ByName(_llama(), "logits", use_cache=False)


def _whisper() -> Any:
    return small(
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        vocab_size=50,
        num_mel_bins=8,
        encoder_layers=1,
        encoder_attention_heads=2,
        decoder_layers=1,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        d_model=16,
        max_source_positions=10,
        max_target_positions=16,
        decoder_start_token_id=1,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )


@network
def whisper_encoder() -> nn.Module:
    return Pixels(_whisper().model.encoder, "last_hidden_state")


class WhisperDecoder(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model.eval()

    def forward(self, input_ids: Tensor, encoder_hidden: Tensor) -> Tensor:
        return self.model.proj_out(
            self.model.model.decoder(input_ids=input_ids, encoder_hidden_states=encoder_hidden, use_cache=False)[
                "last_hidden_state"
            ]
        )


@network
def whisper_decoder() -> nn.Module:
    return WhisperDecoder(_whisper())


# --- sequences


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **more: Any) -> None:
        super().__init__()
        self.layers, self.head = kind(6, 5, batch_first=True, **more), nn.LazyLinear(3)
        self(torch.randn(2, 4, 6))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x)[0])


@network
def lstm() -> nn.Module:
    return Recurrent(nn.LSTM)


@network
def lstm_two_ways() -> nn.Module:
    return Recurrent(nn.LSTM, num_layers=2, bidirectional=True)


@network
def gru_two_ways() -> nn.Module:
    return Recurrent(nn.GRU, bidirectional=True)


@network
def attention() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, norm_first=True)
    return layer


class Detector(nn.Module):
    """Boxes and scores from an image, and the best few by score: what a head of a detection model does."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.boxes, self.scores = nn.Conv2d(3, 6, 3, 2, 1), nn.Conv2d(6, 4, 1), nn.Conv2d(6, 3, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.relu(self.body(x))
        boxes, scores = self.boxes(y).flatten(2).transpose(1, 2), self.scores(y).flatten(2).transpose(1, 2).sigmoid()
        best, where = scores.max(-1)[0].topk(3, dim=1)
        return torch.gather(boxes, 1, where.unsqueeze(-1).expand(-1, -1, 4)), best


@network
def detector() -> nn.Module:
    return Detector()
