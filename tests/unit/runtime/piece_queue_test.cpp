#include "runtime/piece_queue.h"

#include <deque>
#include <random>
#include <string>

#include "catch.h"

using namespace llminfer;
using runtime::PieceQueue;

TEST_CASE("a piece queue gives back what it was given, in order, within its bounds") {
  std::mt19937 random(3);
  PieceQueue queue(5, 40, 2);
  std::deque<std::string> model;
  std::deque<Token> tokens;
  int refused = 0;
  for (int i = 0; i < 100000; ++i) {
    if (random() % 2 == 0) {
      const std::string text(random() % 41, static_cast<char>('a' + i % 26));
      const TopToken top[3] = {{i, -1.0F}, {i + 1, -2.0F}, {i + 2, -3.0F}};
      Piece piece;
      piece.token = i;
      piece.text = text;
      piece.top = {top, random() % 4};
      if (queue.push(piece)) {
        model.push_back(text);
        tokens.push_back(i);
      } else {
        REQUIRE_FALSE(model.empty());  // an empty queue takes any piece
        ++refused;
      }
    } else if (!queue.empty()) {
      REQUIRE(queue.front().text == model.front());
      REQUIRE(queue.front().token == tokens.front());
      REQUIRE(queue.front().top.size() <= 2);
      for (std::size_t t = 0; t < queue.front().top.size(); ++t) {
        REQUIRE(queue.front().top[t].token == tokens.front() + static_cast<Token>(t));
      }
      queue.pop();
      model.pop_front();
      tokens.pop_front();
    }
    REQUIRE(queue.size() == model.size());
    REQUIRE(queue.size() <= 5);
  }
  CHECK(refused > 0);
}
