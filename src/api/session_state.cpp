#include "api/session_state.h"

#include <array>
#include <cstring>
#include <functional>
#include <istream>
#include <ostream>
#include <string>
#include <string_view>

#include "core/fail.h"
#include "core/hash.h"

namespace llminfer::api {
namespace {

constexpr std::string_view magic("llmkv\r\n\x1a", 8);
constexpr std::uint32_t version = 1;
constexpr std::size_t most_header = 4096;  // a layout's name and a few state groups
constexpr std::uint32_t most_layout = 64;

/// Everything but tokens and pages.
struct Header {
  core::Hash128 fingerprint;
  std::uint32_t k = 0;
  std::uint32_t v = 0;
  std::uint32_t page_size = 0;
  std::string layout;
  std::uint32_t vocabulary = 0;
  std::uint32_t tokens = 0;
  std::uint32_t computed = 0;
  struct Group {
    std::uint32_t window = 0;
    std::uint64_t page_bytes = 0;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  std::vector<Group> groups;
};

template <class Header, class Field>
void for_each_field(Header& h, Field field) {
  field(h.fingerprint.low);
  field(h.fingerprint.high);
  field(h.k);
  field(h.v);
  field(h.page_size);
  field(h.layout);
  field(h.vocabulary);
  field(h.tokens);
  field(h.computed);
  field(h.groups);
}
template <class Group, class Field>
void for_each_group_field(Group& g, Field field) {
  field(g.window);
  field(g.page_bytes);
  field(g.first);
  field(g.count);
}

class HeaderWriter {
 public:
  explicit HeaderWriter(const Header& header) { for_each_field(header, *this); }
  template <class T>
  void operator()(const T& number) const {
    bytes_->append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  void operator()(const std::string& text) const {
    (*this)(static_cast<std::uint32_t>(text.size()));
    bytes_->append(text);
  }
  void operator()(const std::vector<Header::Group>& groups) const {
    (*this)(static_cast<std::uint32_t>(groups.size()));
    for (const Header::Group& g : groups) for_each_group_field(g, *this);
  }
  const std::string& bytes() const { return *bytes_; }

 private:
  std::shared_ptr<std::string> bytes_ = std::make_shared<std::string>();
};

/// Bounds each value before it is used.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view bytes) : left_(bytes) { for_each_field(header_, std::ref(*this)); }
  HeaderReader(const HeaderReader&) = delete;
  HeaderReader& operator=(const HeaderReader&) = delete;

  template <class T>
  void operator()(T& number) {
    if (left_.size() < sizeof number) core::fail(ErrorCode::corrupt, "saved session: the header is too short");
    std::memcpy(&number, left_.data(), sizeof number);
    left_.remove_prefix(sizeof number);
  }
  void operator()(std::string& text) {
    std::uint32_t size = 0;
    (*this)(size);
    if (size > most_layout || size > left_.size()) {
      core::fail(ErrorCode::corrupt, "saved session: the page layout's name has {} bytes", size);
    }
    text.assign(left_.substr(0, size));
    left_.remove_prefix(size);
  }
  void operator()(std::vector<Header::Group>& groups) {
    std::uint32_t count = 0;
    (*this)(count);
    if (count > most_header / sizeof(Header::Group)) {
      core::fail(ErrorCode::corrupt, "saved session: {} state groups", count);
    }
    groups.resize(count);
    for (Header::Group& g : groups) for_each_group_field(g, std::ref(*this));
  }
  Header& header() { return header_; }

 private:
  std::string_view left_;
  Header header_;
};

/// The header that this session writes, or must find.
Header header_of(const Session::Body& session) {
  const Model::Body& model = *session.model.body();
  Header h;
  h.fingerprint = model.fingerprint;
  h.k = static_cast<std::uint32_t>(model.format.k);
  h.v = static_cast<std::uint32_t>(model.format.v);
  h.page_size = static_cast<std::uint32_t>(session.pool->page_size());
  h.layout = session.pool->storage().layout();
  h.vocabulary = static_cast<std::uint32_t>(session.pool->graph().vocabulary);
  const runtime::Sequence& s = *session.sequence;
  h.tokens = static_cast<std::uint32_t>(s.size());
  h.computed = static_cast<std::uint32_t>(s.usable());
  for (std::size_t g = 0; g < session.pool->groups(); ++g) {
    Header::Group group;
    group.window = static_cast<std::uint32_t>(session.pool->graph().states[g].window);
    group.page_bytes = session.pool->storage().page_bytes(static_cast<std::int32_t>(g));
    group.first = h.computed > 0 ? static_cast<std::uint32_t>(s.given_back(g)) : 0;
    group.count = (h.computed + h.page_size - 1) / h.page_size - group.first;
    h.groups.push_back(group);
  }
  return h;
}

class Out {
 public:
  explicit Out(std::ostream& out) : out_(out) {}
  void put(std::span<const std::byte> bytes) {
    hasher_.update(bytes);
    out_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!out_) core::fail(ErrorCode::unavailable, "saved session: the stream takes no more bytes");
  }
  void put(std::string_view text) { put(std::as_bytes(std::span(text))); }
  template <class T>
  void put_number(T number) {
    put(std::as_bytes(std::span<const T, 1>(&number, 1)));
  }
  void put_check() {
    const core::Hash128 hash = hasher_.finish();
    put_number(hash.low);
    put_number(hash.high);
  }

 private:
  std::ostream& out_;
  core::Hasher hasher_;
};

class In {
 public:
  explicit In(std::istream& in) : in_(in) {}
  void get(std::span<std::byte> bytes, const char* field) {
    in_.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (static_cast<std::size_t>(in_.gcount()) != bytes.size()) {
      core::fail(ErrorCode::truncated, "saved session: it ends in the {}", field);
    }
    hasher_.update(bytes);
  }
  template <class T>
  T number(const char* field) {
    T value{};
    get(std::as_writable_bytes(std::span<T, 1>(&value, 1)), field);
    return value;
  }
  void check(const char* field) {
    const core::Hash128 expected = hasher_.finish();
    core::Hash128 found;
    found.low = number<std::uint64_t>(field);
    found.high = number<std::uint64_t>(field);
    if (!(found == expected)) core::fail(ErrorCode::corrupt, "saved session: the {} is wrong", field);
  }

 private:
  std::istream& in_;
  core::Hasher hasher_;
};

Header read_header(In& in) {
  std::array<char, magic.size()> start{};
  in.get(std::as_writable_bytes(std::span(start)), "magic");
  if (std::string_view(start.data(), start.size()) != magic) {
    core::fail(ErrorCode::corrupt, "saved session: the magic is wrong");
  }
  const auto found = in.number<std::uint32_t>("version");
  if (found != version)
    core::fail(ErrorCode::mismatch, "saved session: version {}, this library reads {}", found, version);
  const auto size = in.number<std::uint32_t>("header");
  if (size > most_header) core::fail(ErrorCode::corrupt, "saved session: a header of {} bytes", size);
  std::string bytes(size, '\0');
  in.get(std::as_writable_bytes(std::span(bytes)), "header");
  in.check("checksum of the header");
  return std::move(HeaderReader(bytes).header());
}

template <class T>
void require_equal(const char* field, const T& saved, const T& here) {
  if (!(saved == here)) core::fail(ErrorCode::mismatch, "saved session: {} is {}, here {}", field, saved, here);
}

std::string type_name(std::uint32_t type) {
  const bool known = type <= static_cast<std::uint32_t>(KvType::q4_0);
  return known ? to_string(static_cast<KvType>(type)) : "unknown type " + std::to_string(type);
}

/// That pages of `saved` mean the same here.
void check_model(const Header& saved, const Header& here) {
  if (!(saved.fingerprint == here.fingerprint)) {
    core::fail(ErrorCode::mismatch, "saved session: model fingerprint is {:016x}{:016x}, here {:016x}{:016x}",
               saved.fingerprint.high, saved.fingerprint.low, here.fingerprint.high, here.fingerprint.low);
  }
  require_equal("K type", type_name(saved.k), type_name(here.k));
  require_equal("V type", type_name(saved.v), type_name(here.v));
  require_equal("page size", saved.page_size, here.page_size);
  require_equal("page layout", saved.layout, here.layout);
  require_equal("vocabulary", saved.vocabulary, here.vocabulary);
  require_equal("number of state groups", saved.groups.size(), here.groups.size());
  for (std::size_t g = 0; g < here.groups.size(); ++g) {
    require_equal("window", saved.groups[g].window, here.groups[g].window);
    require_equal("page bytes", saved.groups[g].page_bytes, here.groups[g].page_bytes);
  }
}

/// That counts agree with each other.
void check_counts(const Header& h, int context) {
  if (h.tokens > static_cast<std::uint32_t>(context)) {
    core::fail_amount(ErrorCode::context_overflow, h.tokens, context,
                      "the saved history has {} tokens, the context has room for {}", h.tokens, context);
  }
  if (h.computed > h.tokens) {
    core::fail(ErrorCode::corrupt, "saved session: {} of {} tokens computed", h.computed, h.tokens);
  }
  const std::uint32_t pages = (h.computed + h.page_size - 1) / h.page_size;
  for (const Header::Group& g : h.groups) {
    const std::uint32_t unseen = g.window > 0 && h.computed >= g.window ? h.computed - g.window + 1 : 0;
    if (g.first > unseen / h.page_size || g.first > pages || g.count != pages - g.first) {
      core::fail(ErrorCode::corrupt, "saved session: pages {} + {} of a group with a window of {}, {} tokens computed",
                 g.first, g.count, g.window, h.computed);
    }
  }
}

std::vector<Token> read_tokens(In& in, const Header& h) {
  std::vector<Token> tokens(h.tokens);
  in.get(std::as_writable_bytes(std::span(tokens)), "tokens");
  for (const Token t : tokens) {
    if (t < 0 || static_cast<std::uint32_t>(t) >= h.vocabulary) {
      core::fail(ErrorCode::corrupt, "saved session: token {} is outside the vocabulary of {}", t, h.vocabulary);
    }
  }
  return tokens;
}

void require_done(const backend::Status& status) {
  if (!status.ok()) core::fail(status.code, "saved session: {}", status.message);
}

}  // namespace

void save_session(const Session::Body& session, std::ostream& out_stream) {
  Header header;
  {
    const runtime::PoolLock lock(*session.pool);
    header = header_of(session);
  }
  Out out(out_stream);
  const HeaderWriter writer(header);
  out.put(magic);
  out.put_number(version);
  out.put_number(static_cast<std::uint32_t>(writer.bytes().size()));
  out.put(writer.bytes());
  out.put_check();
  out.put(std::as_bytes(session.sequence->tokens()));
  std::vector<std::byte> page;
  for (std::size_t g = 0; g < header.groups.size(); ++g) {
    page.resize(header.groups[g].page_bytes);
    for (std::uint32_t i = 0; i < header.groups[g].count; ++i) {
      {
        const runtime::PoolLock lock(*session.pool);
        const std::int32_t from = session.sequence->table(g)[header.groups[g].first + i];
        require_done(session.pool->storage().read_page(static_cast<std::int32_t>(g), from, page));
      }
      out.put(page);
    }
  }
  out.put_check();
}

void restore_session(Session::Body& session, std::istream& in_stream) {
  In in(in_stream);
  const Header header = read_header(in);
  check_model(header, header_of(session));
  check_counts(header, session.sequence->context());
  session.append(read_tokens(in, header));
  std::vector<std::int32_t> given_back;
  for (const Header::Group& g : header.groups) given_back.push_back(static_cast<std::int32_t>(g.first));
  session.restore_pages(static_cast<std::int32_t>(header.computed), given_back);
  std::vector<std::byte> page;
  for (std::size_t g = 0; g < header.groups.size(); ++g) {
    page.resize(header.groups[g].page_bytes);
    for (std::uint32_t i = 0; i < header.groups[g].count; ++i) {
      in.get(page, "pages");
      const runtime::PoolLock lock(*session.pool);
      const std::int32_t to = session.sequence->table(g)[header.groups[g].first + i];
      require_done(session.pool->storage().write_page(static_cast<std::int32_t>(g), to, page));
    }
  }
  in.check("checksum");
}

}  // namespace llminfer::api
