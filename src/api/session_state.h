// The container of a saved session.
//
//   magic     8 bytes "llmkv\r\n\x1a"
//   version   u32
//   size      u32, bytes of the header that follows
//   header    model fingerprint 2 u64, K and V type u32 u32, page size u32, page layout (u32 length, bytes),
//   vocabulary,
//             tokens and computed tokens u32 u32 u32, number of state groups u32, then for each: window u32, page bytes
//             u64, first page kept and number of pages kept u32 u32
//   check     2 u64: hash of all before
//   tokens    i32 each
//   pages     of group 0 in order of position, of group 1, ...; in the layout of the device
//   check     2 u64: hash of all before, the first check included
//
// All numbers little-endian.
#pragma once

#include <iosfwd>

#include "api/session_body.h"

namespace llminfer::api {

/// Writes history and computed pages. Takes the pool's mutex for each page. Throws unavailable when the stream fails.
void save_session(const Session::Body& session, std::ostream& out);

/// Reads what save_session wrote into `session`, which must be new and empty. Throws mismatch naming the field,
/// truncated, corrupt, context_overflow, out_of_pages.
void restore_session(Session::Body& session, std::istream& in);

}  // namespace llminfer::api
