// Conversations as template values: what is content and what is markup is decided here.
#pragma once

#include <llminfer/chat.hpp>
#include <span>
#include <string_view>

#include "text/jinja/runtime.h"

namespace llminfer::text {

/// Names under which a template may look for reasoning; those that its source mentions are filled.
struct ReasoningNames {
  bool reasoning_content = true, thinking = false, reasoning = false;
};
ReasoningNames reasoning_names(std::string_view source);

/// A list of dicts as Hugging Face's chat format has them.
jinja::Value messages_value(jinja::Meter& meter, std::span<const ChatMessage> messages, const ReasoningNames& names);

/// Makes the roles of a parsed list of messages markup where they are plain words.
void trust_roles(jinja::Meter& meter, const jinja::Value& messages);

/// The list with a mark behind the text of its last message, for the prompt to be cut there.
jinja::Value mark_last_message(jinja::Meter& meter, const jinja::Value& messages);

/// Cuts a rendered text at the mark; fails if the template dropped it.
void cut_at_mark(jinja::SpannedText& text);

}  // namespace llminfer::text
