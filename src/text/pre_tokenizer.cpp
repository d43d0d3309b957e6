#include "text/pre_tokenizer.h"

#include <array>

// The patterns are facts about the models (their tokenizer.json); the names are those of the GGUF key
// tokenizer.ggml.pre. Some are as converted files are commonly run, not quite as trained: tekken and gpt-4o tell upper
// from lower case in ASCII only, and do not count combining marks as letters; the deepseek ranges leave white space
// out.
namespace llminfer::text {
namespace {

constexpr std::string_view gpt2_pattern = R"~('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))~";
constexpr std::string_view llama3_pattern =
    R"~('(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}])~"
    R"~(+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)~";
constexpr std::string_view qwen2_pattern =
    R"~('(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r)~"
    R"~(\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)~";
constexpr std::string_view deepseek3_pattern =
    R"~([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P})~"
    R"~(\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)~";
constexpr std::string_view han_and_kana = R"~([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)~";
constexpr std::string_view han_and_hangul =
    R"~([\x{4E00}-\x{9FA5}\x{800}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E})~"
    R"~(\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{4E00}\x{AC00}-\x{D7FF}]+)~";

constexpr std::array<std::string_view, 19> gpt2_names{
    "gpt-2",   "phi-2",  "jina-es",     "jina-de",    "jina-v2-es",     "jina-v2-de",  "gigachat",
    "a.x-4.0", "mellum", "modern-bert", "jina-v1-en", "jina-v2-code",   "roberta-bpe", "exaone4",
    "mpt",     "olmo",   "jais",        "trillion",   "granite-docling"};
constexpr std::array<std::string_view, 1> gpt2_passes{gpt2_pattern};
constexpr std::array<std::string_view, 2> default_names{"default", ""};
constexpr std::array<std::string_view, 4> default_passes{R"~([\p{P}$+<=>^~|]+)~", gpt2_pattern, R"~(\p{N}+)~",
                                                         R"~([0-9][0-9][0-9])~"};
constexpr std::array<std::string_view, 9> llama3_names{"llama-bpe", "llama3",   "llama-v3", "falcon3",     "falcon-h1",
                                                       "pixtral",   "midm-2.0", "lfm2",     "jina-v5-nano"};
constexpr std::array<std::string_view, 1> llama3_passes{llama3_pattern};
constexpr std::array<std::string_view, 3> llama3_merged_names{"smaug-bpe", "dbrx", "chatglm-bpe"};
constexpr std::array<std::string_view, 1> llama3_merged_passes{llama3_pattern};
constexpr std::array<std::string_view, 2> glm_names{"glm4", "glm5"};
constexpr std::array<std::string_view, 1> glm_passes{llama3_pattern};
constexpr std::array<std::string_view, 9> qwen2_names{
    "qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "megrez", "hunyuan", "solar-open", "grok-2"};
constexpr std::array<std::string_view, 1> qwen2_passes{qwen2_pattern};
constexpr std::array<std::string_view, 1> qwen35_names{"qwen35"};
constexpr std::array<std::string_view, 1> qwen35_passes{
    R"~('(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L})~"
    R"~(\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)~"};
constexpr std::array<std::string_view, 1> deepseek_llm_names{"deepseek-llm"};
constexpr std::array<std::string_view, 6> deepseek_llm_passes{
    R"~([\r\n])~",
    R"~(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})~"
    R"~(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C})~"
    R"~(\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5})~"
    R"~(\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B})~"
    R"~(\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45})~"
    R"~(\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4})~"
    R"~(\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB})~"
    R"~(\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115})~"
    R"~(\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139})~"
    R"~(\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})~"
    R"~(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})~"
    R"~(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})~"
    R"~(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})~"
    R"~(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)~",
    R"~(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3001}-\x{3002}]+)~",
    R"~(\s+\z)~",
    han_and_hangul,
    R"~(\p{N}+)~"};
constexpr std::array<std::string_view, 1> deepseek_coder_names{"deepseek-coder"};
constexpr std::array<std::string_view, 5> deepseek_coder_passes{R"~([\r\n])~", R"~(\s?\p{L}+)~", R"~(\s?\p{P}+)~",
                                                                han_and_hangul, R"~(\p{N})~"};
constexpr std::array<std::string_view, 4> deepseek_v3_names{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"};
constexpr std::array<std::string_view, 3> deepseek_v3_passes{R"~(\p{N}{1,3})~", han_and_kana, deepseek3_pattern};
constexpr std::array<std::string_view, 1> falcon_names{"falcon"};
constexpr std::array<std::string_view, 3> falcon_passes{R"~([\p{P}$+<=>^~|`]+)~", gpt2_pattern, R"~([0-9][0-9][0-9])~"};
constexpr std::array<std::string_view, 8> starcoder_names{"starcoder", "refact", "command-r",  "smollm",
                                                          "codeshell", "exaone", "minerva-7b", "mellum2"};
constexpr std::array<std::string_view, 2> starcoder_passes{R"~(\p{N})~", gpt2_pattern};
constexpr std::array<std::string_view, 3> bloom_names{"bloom", "gpt3-finnish", "poro-chat"};
constexpr std::array<std::string_view, 1> bloom_passes{
    R"~( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)~"};
constexpr std::array<std::string_view, 1> viking_names{"viking"};
constexpr std::array<std::string_view, 2> viking_passes{
    R"~( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)~", R"~(\p{N})~"};
constexpr std::array<std::string_view, 1> tekken_names{"tekken"};
constexpr std::array<std::string_view, 1> tekken_passes{
    R"~([^\r\n\p{L}\p{N}]?[^\P{L}a-z]*[^\P{L}A-Z]+|[^\r\n\p{L}\p{N}]?[^\P{L}a-z]+[^\P{L}A-Z]*|\p{N}| ?[^)~"
    R"~(\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)~"};
constexpr std::array<std::string_view, 5> gpt4o_names{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"};
constexpr std::array<std::string_view, 1> gpt4o_passes{
    R"~([^\r\n\p{L}\p{N}]?[^\P{L}a-z]*[^\P{L}A-Z]+(?:'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE]))?|[^\r\n)~"
    R"~(\p{L}\p{N}]?[^\P{L}a-z]+[^\P{L}A-Z]*(?:'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE]))?|\p{N}{1,3}| )~"
    R"~(?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)~"};
constexpr std::array<std::string_view, 2> tiny_aya_names{"tiny_aya", "cohere2moe"};
constexpr std::array<std::string_view, 2> tiny_aya_passes{
    digits_in_threes_from_the_right,
    R"~([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'(?:[sdmtSDMT]|[l)~"
    R"~(L][lL]|[vV][eE]|[rR][eE]))?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm})~"
    R"~(\p{Lo}\p{M}]*(?:'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE]))?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/)~"
    R"~(]*|\s*[\r\n]+|\s+(?!\S)|\s+)~"};
constexpr std::array<std::string_view, 1> youtu_names{"youtu"};
constexpr std::array<std::string_view, 2> youtu_passes{
    R"~([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014})~"
    R"~(\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|[)~"
    R"~(\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)~",
    R"~([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'(?:[sdmtSDMT]|[l)~"
    R"~(L][lL]|[vV][eE]|[rR][eE]))?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm})~"
    R"~(\p{Lo}\p{M}]*(?:'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE]))?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s)~"
    R"~(*[\r\n]+|\s+(?!\S)|\s+)~"};
constexpr std::array<std::string_view, 1> superbpe_names{"superbpe"};
constexpr std::array<std::string_view, 2> superbpe_passes{R"~(\p{N}+)~", ascii_thousands_boundaries};
constexpr std::array<std::string_view, 1> kimi_names{"kimi-k2"};
constexpr std::array<std::string_view, 1> kimi_passes{
    R"~([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}\x{2B740}-\x{2B81F})~"
    R"~(\x{2B820}-\x{2CEAF}\x{2CEB0}-\x{2EBEF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}]+|[^\r\n\p{L}\p{N}]?[)~"
    R"~(^\P{L}\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F})~"
    R"~(\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{2CEB0}-\x{2EBEF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}]+()~"
    R"~(?:'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE]))?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)~"
    R"~(\s+(?!\S)|\s+)~"};
constexpr std::array<std::string_view, 3> bailing_names{"bailingmoe", "bailingmoe2", "llada-moe"};
constexpr std::array<std::string_view, 1> bailing_passes{
    R"~('(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r)~"
    R"~(\n]*|\s*[\r\n]|\s+(?!\S)|\s+)~"};
constexpr std::array<std::string_view, 1> seed_names{"seed-coder"};
constexpr std::array<std::string_view, 1> seed_passes{
    R"~('(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+)~"
    R"~(|\s*[\r\n]+|\s+(?!\S)|\s+)~"};
constexpr std::array<std::string_view, 1> chameleon_names{"chameleon"};
constexpr std::array<std::string_view, 6> chameleon_passes{R"~(<sentinel:[0-9]+>)~",    R"~(IMGIMG[A-I]{1,4}Z)~",
                                                           R"~([\t\n]|    |  )~",       R"~(\p{N})~",
                                                           R"~([\p{P}!-/:-@\[-`{-~])~", gpt2_pattern};
constexpr std::array<std::string_view, 1> afmoe_names{"afmoe"};
constexpr std::array<std::string_view, 3> afmoe_passes{
    digits_in_threes_from_the_right,
    R"~([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF})~"
    R"~(\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF})~"
    R"~(\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)~",
    deepseek3_pattern};
constexpr std::array<std::string_view, 1> laguna_names{"laguna"};
constexpr std::array<std::string_view, 2> laguna_passes{R"~([^\n]+|\n+)~", qwen2_pattern};
constexpr std::array<std::string_view, 1> exaone_moe_names{"exaone-moe"};
constexpr std::array<std::string_view, 1> exaone_moe_passes{
    R"~('(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}\p{M}*+(?: ?\p{L}\p{M}*+)*+|)~"
    R"~(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)~"};
constexpr std::array<std::string_view, 1> minicpm5_names{"minicpm5"};
constexpr std::array<std::string_view, 2> minicpm5_passes{
    R"~(\p{N}{1,3})~",
    R"~('(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r)~"
    R"~(\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)~"};
constexpr std::array<std::string_view, 3> gemma4_names{"gemma4", "granite-embed-multi-311m", "sarvam-moe"};
constexpr std::array<std::string_view, 1> gemma4_passes{R"~([^\n]+|\n+)~"};

constexpr std::array<PreRules, 28> rules_table{{
    {gpt2_names, gpt2_passes, false, false, false},
    {default_names, default_passes, false, false, false},
    {llama3_names, llama3_passes, true, true, false},
    {llama3_merged_names, llama3_merged_passes, false, false, false},
    {glm_names, glm_passes, true, false, false},
    {qwen2_names, qwen2_passes, false, false, false},
    {qwen35_names, qwen35_passes, false, false, false},
    {deepseek_llm_names, deepseek_llm_passes, false, false, false},
    {deepseek_coder_names, deepseek_coder_passes, false, false, false},
    {deepseek_v3_names, deepseek_v3_passes, false, false, false},
    {falcon_names, falcon_passes, false, false, false},
    {starcoder_names, starcoder_passes, false, false, false},
    {bloom_names, bloom_passes, false, false, false},
    {viking_names, viking_passes, false, false, false},
    {tekken_names, tekken_passes, true, true, false},
    {gpt4o_names, gpt4o_passes, false, false, false},
    {tiny_aya_names, tiny_aya_passes, false, false, false},
    {youtu_names, youtu_passes, true, false, false},
    {superbpe_names, superbpe_passes, false, false, false},
    {kimi_names, kimi_passes, false, false, false},
    {bailing_names, bailing_passes, false, false, false},
    {seed_names, seed_passes, false, false, false},
    {chameleon_names, chameleon_passes, false, true, false},
    {afmoe_names, afmoe_passes, false, false, false},
    {laguna_names, laguna_passes, false, false, false},
    {exaone_moe_names, exaone_moe_passes, false, false, false},
    {minicpm5_names, minicpm5_passes, true, false, false},
    {gemma4_names, gemma4_passes, false, false, true},
}};

}  // namespace

const PreRules* find_pre_rules(std::string_view name) noexcept {
  for (const PreRules& rules : rules_table) {
    for (const std::string_view known : rules.names) {
      if (known == name) return &rules;
    }
  }
  return nullptr;
}

std::span<const PreRules> all_pre_rules() noexcept { return rules_table; }

}  // namespace llminfer::text
