"""Small unigram models, trained with sentencepiece (PyPI), and what it makes of texts.

usage: make_unigram.py > unigram.json            needs: pip install sentencepiece
       make_unigram.py RULES > other.json        with sentencepiece's own normalization rules of that name, e.g. nmt_nfkc
"""
import base64
import io
import json
import random
import struct
import sys
import tempfile

import sentencepiece

# Replacements like those of published models, but few, so that the compiled table is small.
RULES = [("\ufb01", "fi"), ("\ufb00", "ff"), ("\ufb03", "ffi"), ("\uff21", "A"), ("\uff22", "B"), ("\uff11", "1"),
         ("\uff12", "2"), ("\u3000", " "), ("\xa0", " "), ("\t", " "), ("\n", " "), ("\r", " "), ("e\u0301", "\xe9"),
         ("o\u0308", "\xf6"), ("\u2026", "..."), ("\xbd", "1/2"), ("\u200b", ""), ("\ufeff", ""), ("\uff76\uff9e", "\u30ac"),
         ("\uff76", "\u30ab"), ("\u2122", "TM"), ("\u0130", "i\u0307"), ("\u304b\u3099", "\u304c")]

WORDS = """the of and to in a is that for it was on with as be by at this from they have not which when there people
water question government something language banana bananas anna hannah mississippi tokens tokenizer tokenization model
models small smaller smallest word words wording text texts length lengthen lengthening 1 2 12 2024 3.14 naïve café
über straße Tür Привет мир слово слова 東京 日本 日本語 言葉 テキスト 한국어 단어 안녕 aaa aaaa aaaaaa abab ababab fi ff affine office
office's don't can't end. stop, wait; why? no! (yes) [ok] {x} <y> a+b c=d e_f g-h i/j""".split()

TEXTS = ["", " ", "  ", "a", "Hello", " Hello", "Hello ", "  two  spaces  ", "the banana of hannah", "tokenization lengthening",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abababababababababa", "bananabananabanana", "mississippimississippi", "the\tcafé\nover\r\nthere",
         "café office ﬃ ﬁne", "\uff21\uff22\uff11\uff12\u3000\uff21\xa0x", "\uff76\uff9e\uff76 \u304b\u3099 \u304c", "wait… ½ ™ İ", "日本語のテキスト", "東京日本言葉", "안녕 한국어", "Привет, мир!", "naïve über Tür",
         "unknown: ☃ ☃☃ 🚀🚀x🚀", "zero\u200bwidth\ufeffbom", "<think>banana</think>", "a<think> b", " <think>", "<ctl>x", "▁ literal ▁▁mark",
         "1 12 123 2024 3.14159", "don't can't office's", "(yes)[ok]{x}<y>a+b", "x\x00y", "\x01\x7f", "end.\n\n\nstop", "q" * 60, "e\u0301\u0302 o\u0308x e\u0301a", "\u304b\u3099\u304b", "word" * 30]


def fields(data: bytes):
    """(number, value) of a protobuf message; values of messages and strings as bytes, floats as float."""
    stream = io.BytesIO(data)

    def varint():
        value = shift = 0
        while True:
            byte = stream.read(1)
            if not byte:
                return None
            value |= (byte[0] & 0x7F) << shift
            shift += 7
            if byte[0] < 0x80:
                return value

    while (key := varint()) is not None:
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
        elif kind == 1:
            yield key >> 3, stream.read(8)
        elif kind == 2:
            yield key >> 3, stream.read(varint())
        else:
            yield key >> 3, struct.unpack("<f", stream.read(4))[0]


def unpack(model: bytes):
    """([text, score, type] of each piece, charsmap)."""
    pieces, charsmap = [], b""
    for number, value in fields(model):
        if number == 1:
            piece = dict(fields(value))
            pieces.append([piece[1].decode(), piece.get(2, 0.0), piece.get(3, 1)])
        elif number == 3:
            charsmap = dict(fields(value)).get(2, b"")
    return pieces, charsmap


def train(rules, folder, **options):
    pick = random.Random(1)
    lines = [" ".join(pick.choice(WORDS) for _ in range(12)) for _ in range(1500)]
    if rules is None:
        path = folder + "/rules.tsv"
        with open(path, "w", encoding="utf8") as file:
            for source, target in RULES:
                code = lambda text: " ".join("%X" % ord(c) for c in text)
                file.write(code(source) + "\t" + code(target) + "\n")
        options["normalization_rule_tsv"] = path
    else:
        options["normalization_rule_name"] = rules
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="unigram", hard_vocab_limit=False, minloglevel=2,
        character_coverage=1.0, user_defined_symbols=["<think>"], control_symbols=["<ctl>"], num_threads=1, **options)
    return model.getvalue()


def golden(rules, folder, prefix, merge, **options):
    model = train(rules, folder, add_dummy_prefix=prefix, remove_extra_whitespaces=merge, **options)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces, charsmap = unpack(model)
    rows = ['{"pieces":' + json.dumps(pieces, separators=(",", ":")), '"charsmap":"%s"' % base64.b64encode(charsmap).decode(),
            '"space_prefix":%s,"merge_spaces":%s' % (json.dumps(prefix), json.dumps(merge)),
            '"ids":' + json.dumps([processor.encode(text) for text in TEXTS], separators=(",", ":")) + "}"]
    return ",\n".join(rows)


def main() -> None:
    rules = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as folder:
        models = [golden(rules, folder, True, True, vocab_size=260), golden(rules, folder, False, True, vocab_size=240),
                  golden(rules, folder, True, False, vocab_size=520, byte_fallback=True)]
    print('{"texts":' + json.dumps(TEXTS, separators=(",", ":")) + ',\n"models":[\n' + ",\n".join(models) + "]}")


main()
