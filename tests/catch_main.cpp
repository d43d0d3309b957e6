// main() for every Catch2 v2 test program (v3 brings its own), compiled once.
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif
