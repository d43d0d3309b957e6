"""Goldens of the pre-tokenizers that no vocabulary at hand names: what llama.cpp gives when the gpt-2 vocabulary names them.

usage: make_pre_tokenizers.py PEER_TOKENIZE GPT2_VOCABULARY > pre_tokenizers.json
PEER_TOKENIZE is bench/peer_tokenize, which the option LLMINFER_PEER builds.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

NAMES = """gpt-2 llama-bpe smaug-bpe qwen2 qwen35 deepseek-llm deepseek-coder deepseek-v3 falcon starcoder refact command-r
mpt olmo dbrx smollm tekken gpt-4o chatglm-bpe bloom gpt3-finnish exaone minerva-7b superbpe kimi-k2 hunyuan seed-coder
bailingmoe llama4 default""".split()

TEXTS = [
    # runs of digits
    "1", "12", "123", "1234", "12345", "1234567", "12345678901234567890", "a1b22c333d4444", " 1  22   333", "3.14159,26",
    "1,234,567.89", "٠١٢٣٤٥٦٧٨٩", "१२३४", "１２３４５", "Ⅳ½²³①", "x1234١٢٣٤5678",
    # contractions
    "I'm you're he's we've they'll I'd can't", "I'M YOU'RE HE'S WE'VE THEY'LL I'D CAN'T", "'s 't 're 've 'm 'll 'd", "''s'''tt",
    "it’s ’twas", "o'clock rock'n'roll'sé", "'S'T'RE'VE'M'LL'D 'Re 'vE 'lL", "ſ'ſ 'ſ",
    # scripts
    "我想在apple工作1314151天～", "日本語のテキスト、カタカナとひらがな。", "漢字・仮名ー々〆", "한국어 텍스트입니다. 한글", "각낢 ᄀᄁᄂ",
    "مرحبا بالعالم، كيف الحال؟", "שלום עולם", "नमस्ते दुनिया। हिन्दी", "สวัสดีชาวโลก", "កាន់តែពិសេសអាច", "Привет, МИР! Ёжик",
    "Ελληνικά ΚΕΊΜΕΝΟ", "Cửa Việt ĐƯỜNG", "ǅ ǈ ǋ titlecase", "𐐀𐐨 𝒜𝓑𝔠 𠀀𪜀", "ﬁ ﬀ ẞ ß İ ı",
    # emoji, joiners, marks
    "🚀 (normal) 😶‍🌫️ ✅", "👩‍👩‍👧‍👦👍🏽🇩🇪", "é è ñ à́̂", "́ ̂a ̃", "a⃝ ❤️ 1️⃣", "soft­hyphen zero​width‍joiner﻿",
    # white space
    "a\n\n\nb", "a\r\nb\r\n\r\nc", " \n \n  x", "\t\t a\t b", "   ", "\n", "\r", " \n", "a  b   c    d     e", "x \t\r\n y   \n", "  z w　v",
    "\u000b\u000c\u0085x", "end   ", "end\n\n", " \u180e x",
    # symbols
    "!!!??? ... --- === ***", "$100 + 50€ < £20 ^2 ~x |y| `z`", "foo(bar)[baz]{qux}<quux>", "#include <stdio.h>\nint main() {\n\treturn 0;\n}\n",
    "https://example.com/a_b-c?d=e&f=%20#g", "a/b//c\\d\\\\e", "«quotes» „low“ ‘single’ 「」", "x=1;y!=2&&z||!w", "@user #tag _under_ __init__",
    "fooBar FooBAR fooBARBaz HTTPServer iOS", "abc.DEF.ghi  JKL", "...a ,b ;c !d /e /f\n/g", "。，、！？…।۔،", "(a) (b). c, d!",
    "\u0000\u0001\u001f\u007f", "�", "a�b", "<|endoftext|>", "IMGIMGABCZ <sentinel:3>", "ÀÉÎõü ÇŞĞ", "Ünïcödé wörds",
]


def with_pre(vocabulary: bytes, name: str) -> bytes:
    """The file (it has no tensors, so nothing depends on places) with another tokenizer.ggml.pre."""
    key = b"tokenizer.ggml.pre"
    at = vocabulary.index(struct.pack("<Q", len(key)) + key) + 8 + len(key) + 4
    (size,) = struct.unpack_from("<Q", vocabulary, at)
    return vocabulary[:at] + struct.pack("<Q", len(name)) + name.encode() + vocabulary[at + 8 + size:]


def ids(program: str, model: str) -> list:
    texts = "".join(text.encode().hex() + "\n" for text in TEXTS)
    output = subprocess.run([program, "ids", model], input=texts, capture_output=True, check=True, text=True).stdout
    rows = [[int(word) for word in line.split()] for line in output.split("\n")[:-1]]
    assert len(rows) == len(TEXTS), (model, len(rows))
    return rows


def main() -> None:
    program, vocabulary_file = sys.argv[1:]
    vocabulary = open(vocabulary_file, "rb").read()
    by_ids = {}
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "vocabulary.gguf")
        for name in NAMES:
            with open(model, "wb") as file:
                file.write(with_pre(vocabulary, name))
            by_ids.setdefault(json.dumps(ids(program, model), separators=(",", ":")), []).append(name)
    print('{"texts":')
    print(json.dumps(TEXTS, ensure_ascii=True, separators=(",", ":")))
    print(',"goldens":[')
    print(",\n".join('{"names":%s,"ids":%s}' % (json.dumps(names), rows) for rows, names in by_ids.items()))
    print("]}")


main()
