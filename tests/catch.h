// Catch2 v2 (Debian 12) and v3 (Ubuntu 24.04) under one name. Assert only on the main thread.
#pragma once
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
