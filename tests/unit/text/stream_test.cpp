// Pieces to text, and stop strings.
#include <llminfer/error.hpp>
#include <random>

#include "catch.h"
#include "text/piece_stream.h"
#include "text/utf8.h"

namespace llminfer::test {
namespace {

using text::PieceDecoder;
using text::PieceStream;
using text::StopMatcher;
using text::StopStrings;

std::vector<std::string> decode_pieces(const std::vector<std::string>& pieces) {
  PieceDecoder decoder;
  std::vector<std::string> texts;
  for (const std::string& piece : pieces) {
    texts.emplace_back();
    decoder.feed(piece, texts.back());
  }
  texts.emplace_back();
  decoder.finish(texts.back());
  return texts;
}

struct Streamed {
  std::vector<std::string> texts;  // one a piece, the last one from finish()
  int stop = -1;
};

Streamed stream(std::vector<std::string> stops, const std::vector<std::string>& pieces) {
  PieceStream stream(std::make_shared<const StopStrings>(std::move(stops)), 64);
  Streamed result;
  for (const std::string& piece : pieces) {
    const auto stop = stream.feed(piece);
    result.texts.emplace_back(stream.text());
    if (stop) {
      result.stop = static_cast<int>(*stop);
      return result;
    }
  }
  stream.finish();
  result.texts.emplace_back(stream.text());
  return result;
}

std::string joined(const Streamed& streamed) {
  std::string text;
  for (const std::string& part : streamed.texts) text += part;
  return text;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("characters wait until they are complete") {
  CHECK(decode_pieces({"\xF0\x9F\x98", "\xB8"}) == Texts{"", "\xF0\x9F\x98\xB8", ""});
  CHECK(decode_pieces({" \xF0", "\x9F\x98\xB8!"}) == Texts{" ", "\xF0\x9F\x98\xB8!", ""});
  CHECK(decode_pieces({"\xF0\x9F", "\x5C"}) == Texts{"", "\xEF\xBF\xBD\x5C", ""});
  CHECK(decode_pieces({"a\xE2\x82"}) == Texts{"a", "\xEF\xBF\xBD"});  // the length limit inside a character
  CHECK(decode_pieces({"\xE2", "\x82", "\xAC", "\x80"}) == Texts{"", "", "\xE2\x82\xAC", "\xEF\xBF\xBD", ""});
  CHECK(decode_pieces({"\xC3", "\xC3", "\xA9"}) == Texts{"", "\xEF\xBF\xBD", "\xC3\xA9", ""});
}

TEST_CASE("text of any cut equals the text of the whole") {
  std::mt19937 random(7);
  const std::string parts[] = {"a",    "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
                               "\x80", "\xF0\x9F", "\xED\xA0",     "\xFF"};
  for (int round = 0; round < 500; ++round) {
    std::string bytes;
    for (int i = 0; i < 30; ++i) bytes += parts[random() % 8];
    std::string text;
    PieceDecoder decoder;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t size = std::min<std::size_t>(random() % 4, bytes.size() - at);
      decoder.feed(std::string_view(bytes).substr(at, size), text);
      at += size;
    }
    decoder.finish(text);
    REQUIRE(text == text::utf8_repaired(bytes));
  }
}

TEST_CASE("nothing of a stop string comes out") {
  CHECK(joined(stream({"DEFGHIJ"}, {"DEF", "G", "HI", "J"})).empty());
  CHECK(stream({"DEFGHIJ"}, {"DEF", "G", "HI", "J"}).stop == 0);
  const Streamed fox = stream({"own fox"}, {"The quick br", "own", " fox"});
  CHECK(fox.texts == Texts{"The quick br", "", ""});
  CHECK(fox.stop == 0);
  CHECK(joined(stream({"ass of 1990, the best one"}, {"ple", "as"})) == "pleas");
  CHECK(stream({"ass of 1990, the best one"}, {"ple", "as"}).texts == Texts{"ple", "", "as"});
  CHECK(stream({}, {"any", "thing"}).texts == Texts{"any", "thing", ""});
}

TEST_CASE("of several stop strings the one that ends first counts, the longest of those") {
  CHECK(stream({"abc", "ab"}, {"xabc"}).stop == 1);  // a prefix of another
  CHECK(joined(stream({"abc", "ab"}, {"xabc"})) == "x");
  CHECK(stream({"bcd", "abcd"}, {"xabcd"}).stop == 1);
  CHECK(joined(stream({"bcd", "abcd"}, {"xabcd"})) == "x");
  CHECK(stream({"abcX", "bcd"}, {"ab", "c", "d"}).stop == 1);
  CHECK(joined(stream({"abcX", "bcd"}, {"ab", "c", "d"})) == "a");
  CHECK(stream({"aab"}, {"aaaa", "ab"}).texts == Texts{"aa", "a"});  // only "aa" may wait
}

TEST_CASE("a stop string may end inside a piece and inside a character") {
  CHECK(joined(stream({"\n\n"}, {"one\n", "\ntwo"})) == "one");
  CHECK(joined(stream({"\x98"}, {"a\xF0\x9F", "\x98\x80"})) == "a\xEF\xBF\xBD");
}

TEST_CASE("streams equal a search of the whole text") {
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    const auto word = [&](std::size_t least, std::size_t most) {
      std::string letters(least + random() % (most - least + 1), 'a');
      for (char& c : letters) c = static_cast<char>('a' + random() % 2);
      return letters;
    };
    std::vector<std::string> stops;
    for (std::size_t i = 0; i < 1 + random() % 4; ++i) stops.push_back(word(2, 6));
    const std::string text = word(0, 40);
    std::size_t best_end = std::string::npos, best_begin = std::string::npos;
    for (const std::string& stop : stops) {
      const std::size_t begin = text.find(stop);
      if (begin == std::string::npos) continue;
      const std::size_t end = begin + stop.size();
      if (end < best_end || (end == best_end && begin < best_begin)) {
        best_end = end;
        best_begin = begin;
      }
    }
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      pieces.push_back(text.substr(at, 1 + random() % 5));
      at += pieces.back().size();
    }
    const Streamed streamed = stream(stops, pieces);
    REQUIRE(joined(streamed) == text.substr(0, best_begin));
    REQUIRE((streamed.stop >= 0) == (best_end != std::string::npos));
  }
}

TEST_CASE("a matcher waits only for what begins a stop string") {
  StopMatcher matcher(std::make_shared<const StopStrings>(Texts{"abab"}));
  std::string out;
  CHECK_FALSE(matcher.feed("xaba", out));
  CHECK(out == "x");
  CHECK(matcher.held() == 3);
  const StopMatcher before = matcher;  // a fork
  CHECK_FALSE(matcher.feed("a", out));
  CHECK(out == "xaba");
  CHECK(matcher.held() == 1);
  matcher = before;  // a rewind
  out.clear();
  CHECK(matcher.feed("b!", out) == std::size_t{0});
  CHECK(out.empty());
}

TEST_CASE("marks rewind a stream, copies fork it") {
  PieceStream stream(std::make_shared<const StopStrings>(Texts{"STOP"}), 16);
  stream.feed("a ST");
  CHECK(stream.text() == "a ");
  const PieceStream::Mark mark = stream.mark();
  PieceStream fork = stream;
  stream.feed("ATE");
  CHECK(stream.text() == "STATE");
  stream.rewind(mark);
  CHECK(stream.feed("OP").has_value());
  CHECK(stream.text().empty());
  fork.feed("\xF0\x9F");
  CHECK(fork.text() == "ST");
  CHECK(fork.bytes() == "ST\xF0\x9F");
  fork.finish();
  CHECK(fork.text() == "\xEF\xBF\xBD");
  CHECK(fork.bytes().empty());
}

TEST_CASE("feeding allocates nothing") {
  PieceStream stream(std::make_shared<const StopStrings>(Texts{"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE"}), 16);
  const void* bytes = stream.bytes().data();
  const void* text = stream.text().data();
  for (int round = 0; round < 100; ++round) {
    stream.feed(std::string_view("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 1 + round % 16));
    CHECK(stream.bytes().data() == bytes);
    CHECK(stream.text().data() == text);
  }
}

TEST_CASE("empty stop strings are refused") {
  CHECK_THROWS_AS(StopStrings(Texts{"a", ""}), Exception);
  CHECK_THROWS_AS(StopStrings(Texts{std::string(StopStrings::most_bytes + 1, 'a')}), Exception);
}

}  // namespace llminfer::test
