// One factory per sampler; each is defined in the sampler's own file. Parameters have passed validate().
#pragma once

#include <string>

#include "runtime/sampling/link.h"

namespace llminfer::runtime {

using LinkPointer = std::unique_ptr<Link>;

LinkPointer make_link(const Greedy&, const LinkContext&);
LinkPointer make_link(const Temperature&, const LinkContext&);
LinkPointer make_link(const DynamicTemperature&, const LinkContext&);
LinkPointer make_link(const TopK&, const LinkContext&);
LinkPointer make_link(const TopP&, const LinkContext&);
LinkPointer make_link(const MinP&, const LinkContext&);
LinkPointer make_link(const TypicalP&, const LinkContext&);
LinkPointer make_link(const TopNSigma&, const LinkContext&);
LinkPointer make_link(const Xtc&, const LinkContext&);
LinkPointer make_link(const Dry&, const LinkContext&);
LinkPointer make_link(const Mirostat&, const LinkContext&);
LinkPointer make_link(const MirostatV2&, const LinkContext&);
LinkPointer make_link(const AdaptiveP&, const LinkContext&);
LinkPointer make_link(const RepetitionPenalty&, const LinkContext&);
LinkPointer make_link(const PresencePenalty&, const LinkContext&);
LinkPointer make_link(const FrequencyPenalty&, const LinkContext&);
LinkPointer make_link(const NoRepeatNgram&, const LinkContext&);
LinkPointer make_link(const LogitBias&, const LinkContext&);
LinkPointer make_link(const Custom&, const LinkContext&);

/// Removes the tokens named.
LinkPointer make_banned_tokens(std::span<const Token> tokens, const LinkContext&);
/// Removes the context's stop tokens until `count` tokens have been generated.
LinkPointer make_min_new_tokens(int count, const LinkContext&);

/// The link of whichever kind the spec is.
LinkPointer make_link(const SamplerSpec& spec, const LinkContext& context);

}  // namespace llminfer::runtime
