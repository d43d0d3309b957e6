// Single instructions from text, against what the PTX manual says of them. No nvcc is needed.
#include <algorithm>
#include <bit>

#include "catch.h"
#include "support.h"

namespace ptxsim::tests {
namespace {

/// Runs `body` on one warp: %r1 is the lane, %a, %b, %c are x[lane], x[32 + lane], x[64 + lane]; %d is stored.
std::vector<std::uint32_t> run(const std::string& body, const std::vector<std::uint32_t>& x,
                               std::vector<Finding>* findings = nullptr) {
  const std::string text =
      ".version 9.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1)\n{\n"
      ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .f32 %f<9>; .reg .b64 %rd<9>; .reg .f64 %fd<9>;\n"
      ".reg .b32 %a; .reg .b32 %b; .reg .b32 %c; .reg .b32 %d;\n"
      "ld.param.u64 %rd1, [k_param_0]; ld.param.u64 %rd2, [k_param_1];\n"
      "mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd2, %rd2, %rd3; add.s64 %rd1, %rd1, %rd3;\n"
      "ld.global.u32 %a, [%rd2]; ld.global.u32 %b, [%rd2+128]; ld.global.u32 %c, [%rd2+256];\n" +
      body + "\nst.global.u32 [%rd1], %d;\nret;\n}\n";
  const Module module = parse_module(text);
  DeviceMemory memory;
  GlobalTracker tracker;
  std::vector<std::uint32_t> in = x;
  in.resize(96);
  std::uint32_t* y = upload(memory, std::vector<std::uint32_t>(32));
  const LaunchResult r = launch(module.kernels.begin()->second, {{1, 1, 1}, {32, 1, 1}, 0},
                                parameters(y, upload(memory, in)), memory, tracker, {});
  if (findings != nullptr) {
    *findings = r.findings;
  } else {
    for (const Finding& f : r.findings) FAIL_CHECK(name_of(f.check) << " " << f.text);
  }
  return {y, y + 32};
}

std::uint32_t one(const std::string& body, std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0) {
  std::vector<std::uint32_t> x(96, a);
  std::fill(x.begin() + 32, x.begin() + 64, b);
  std::fill(x.begin() + 64, x.end(), c);
  const std::vector<std::uint32_t> y = run(body, x);
  for (const std::uint32_t v : y) CHECK(v == y[0]);
  return y[0];
}

}  // namespace

TEST_CASE("integer arithmetic") {
  CHECK(one("add.s32 %d, %a, %b;", 0xffffffff, 2) == 1);
  CHECK(one("mul.hi.u32 %d, %a, %b;", 0x80000000, 6) == 3);
  CHECK(one("mul.hi.s32 %d, %a, %b;", 0x80000000, 6) == 0xfffffffd);
  CHECK(one("mad.lo.s32 %d, %a, %b, %c;", 7, 6, 0xffffffff) == 41);
  CHECK(one("div.s32 %d, %a, %b;", 0xfffffff9, 2) == 0xfffffffd);
  CHECK(one("rem.s32 %d, %a, %b;", 0xfffffff9, 2) == 0xffffffff);
  CHECK(one("div.u32 %d, %a, 0;", 5) == 0xffffffff);
  CHECK(one("min.s32 %d, %a, %b;", 0xfffffff9, 2) == 0xfffffff9);
  CHECK(one("min.u32 %d, %a, %b;", 0xfffffff9, 2) == 2);
  CHECK(one("abs.s32 %d, %a;", 0xfffffff9) == 7);
  CHECK(one("dp4a.s32.s32 %d, %a, %b, %c;", 0x01ff02fe, 0x01010101, 10) == 10 + 1 - 1 + 2 - 2);
  CHECK(one("mul.wide.s32 %rd4, %a, %b; shr.u64 %rd4, %rd4, 32; cvt.u32.u64 %d, %rd4;", 0xffffffff, 5) == 0xffffffff);
}

TEST_CASE("bits") {
  CHECK(one("lop3.b32 %d, %a, %b, %c, 0xea;", 0xff00ff00, 0x0ff00ff0, 0x11111111) ==
        ((0xff00ff00 & 0x0ff00ff0) | 0x11111111));
  CHECK(one("lop3.b32 %d, %a, %b, %c, 0x96;", 5, 9, 12) == (5 ^ 9 ^ 12));
  CHECK(one("prmt.b32 %d, %a, %b, 0x7531;", 0x33221100, 0x77665544) == 0x77553311);
  CHECK(one("prmt.b32 %d, %a, %b, 0x888b;", 0x80221100, 0) == 0x000000ff);
  CHECK(one("shl.b32 %d, %a, %b;", 1, 33) == 0);
  CHECK(one("shr.s32 %d, %a, %b;", 0x80000000, 40) == 0xffffffff);
  CHECK(one("shf.l.wrap.b32 %d, %a, %b, 36;", 0x12345678, 0x9abcdef0) == 0xabcdef01);
  CHECK(one("shf.r.wrap.b32 %d, %a, %b, 4;", 0x12345678, 0x9abcdef0) == 0x01234567);
  CHECK(one("bfe.u32 %d, %a, 4, 8;", 0x12345678) == 0x67);
  CHECK(one("bfe.s32 %d, %a, 4, 4;", 0x000000f0) == 0xffffffff);
  CHECK(one("bfi.b32 %d, %a, %b, 8, 4;", 0x5, 0xffffffff) == 0xfffff5ff);
  CHECK(one("popc.b32 %d, %a;", 0xf0f0) == 8);
  CHECK(one("clz.b32 %d, %a;", 0x00010000) == 15);
  CHECK(one("brev.b32 %d, %a;", 1) == 0x80000000);
  CHECK(one("bfind.u32 %d, %a;", 0x00010000) == 16);
  CHECK(one("bfind.shiftamt.u32 %d, %a;", 0x00010000) == 15);
  CHECK(one("bfind.shiftamt.s32 %d, %a;", 0xfffffffe) == 31);
  CHECK(one("bfind.shiftamt.u32 %d, %a;", 0) == 0xffffffff);
  CHECK(one("not.b32 %d, %a;", 1) == 0xfffffffe);
}

TEST_CASE("halves") {
  // 1.5 and 2.5 in f16: 0x3e00, 0x4100.
  CHECK(one("add.f16x2 %d, %a, %b;", 0x3e004100, 0x41003e00) == 0x44004400);
  CHECK(one("fma.rn.f16x2 %d, %a, %b, %c;", 0x3e004100, 0x40004000, 0x3c00bc00) == 0x44004400);
  CHECK(one("sub.f16x2 %d, %a, %b;", 0x64056408, 0x64086408) == 0xc2000000);
  CHECK(one("mov.b32 %f1, %a; mov.b32 %f2, %b; cvt.rn.f16x2.f32 %d, %f1, %f2;", 0x3fc00000, 0x40200000) == 0x3e004100);
  CHECK(one("mov.b32 %f1, %a; mov.b32 %f2, %b; cvt.rn.bf16x2.f32 %d, %f1, %f2;", 0x3fc00000, 0x40200000) == 0x3fc04020);
  CHECK(one("mov.b32 {%h1, %h2}, %a; cvt.f32.f16 %f1, %h2; mov.b32 %d, %f1;", 0x3e000000) == 0x3fc00000);
  CHECK(one("mov.b32 {%h1, %h2}, %a; mov.b32 %d, {%h2, %h1};", 0x12345678) == 0x56781234);
  CHECK(one("mul.bf16x2 %d, %a, %b;", 0x3fc04020, 0x40004000) == 0x404040a0);
}

TEST_CASE("conversions") {
  const auto f = [](float v) { return std::bit_cast<std::uint32_t>(v); };
  CHECK(one("mov.b32 %f1, %a; cvt.rni.s32.f32 %d, %f1;", f(2.5F)) == 2);
  CHECK(one("mov.b32 %f1, %a; cvt.rzi.s32.f32 %d, %f1;", f(-2.7F)) == 0xfffffffe);
  CHECK(one("mov.b32 %f1, %a; cvt.rmi.s32.f32 %d, %f1;", f(-2.2F)) == 0xfffffffd);
  CHECK(one("mov.b32 %f1, %a; cvt.rzi.s32.f32 %d, %f1;", f(1e20F)) == 0x7fffffff);
  CHECK(one("mov.b32 %f1, %a; cvt.rzi.u32.f32 %d, %f1;", f(-5.0F)) == 0);
  CHECK(one("cvt.s8.s32 %h1, %a; cvt.s32.s16 %d, %h1;", 0x1ff) == 0xffffffff);
  CHECK(one("cvt.sat.u8.s32 %h1, %a; cvt.u32.u16 %d, %h1;", 300) == 255);
  CHECK(one("cvt.rn.f32.s32 %f1, %a; mov.b32 %d, %f1;", 0xffffffff) == f(-1));
  CHECK(one("cvt.rn.f32.u32 %f1, %a; mov.b32 %d, %f1;", 0xffffffff) == f(4294967296.0F));
  CHECK(one("mov.b32 %f1, %a; cvt.rpi.f32.f32 %f2, %f1; mov.b32 %d, %f2;", f(1.25F)) == f(2));
}

TEST_CASE("compare and select") {
  CHECK(one("setp.lt.s32 %p1, %a, %b; selp.b32 %d, 1, 2, %p1;", 0xffffffff, 0) == 1);
  CHECK(one("setp.lt.u32 %p1, %a, %b; selp.b32 %d, 1, 2, %p1;", 0xffffffff, 0) == 2);
  CHECK(one("setp.eq.s32 %p2, %a, 0; setp.ne.and.s32 %p1|%p3, %a, %b, !%p2; selp.b32 %d, 1, 2, %p1;", 5, 6) == 1);
  CHECK(one("mov.b32 %f1, %a; setp.gtu.f32 %p1, %f1, 0f00000000; selp.b32 %d, 1, 2, %p1;", 0x7fc00000) == 1);
  CHECK(one("mov.b32 %f1, %a; setp.gt.f32 %p1, %f1, 0f00000000; selp.b32 %d, 1, 2, %p1;", 0x7fc00000) == 2);
}

TEST_CASE("shuffles, votes, matches, reductions") {
  std::vector<std::uint32_t> x(96);
  for (std::uint32_t i = 0; i < 96; ++i) x[i] = i % 32 * 10;
  const auto up = run("shfl.sync.up.b32 %d|%p1, %a, 3, 0, -1;", x);
  const auto down = run("shfl.sync.down.b32 %d|%p1, %a, 3, 31, -1;", x);
  const auto segment = run("shfl.sync.bfly.b32 %d, %a, 5, 0x181f, -1;", x);
  const auto index = run("shfl.sync.idx.b32 %d, %a, 2, 0x1c1f, -1;", x);
  const auto ballot = run("setp.gt.u32 %p1, %a, 150; vote.sync.ballot.b32 %d, %p1, -1;", x);
  const auto match = run("shr.u32 %r2, %r1, 3; match.any.sync.b32 %d, %r2, -1;", x);
  const auto sum = run("redux.sync.add.s32 %d, %a, -1;", x);
  for (std::uint32_t l = 0; l < 32; ++l) {
    CHECK(up[l] == (l < 3 ? l : l - 3) * 10);
    CHECK(down[l] == (l > 28 ? l : l + 3) * 10);
    CHECK(segment[l] == (l ^ 5) * 10);
    CHECK(index[l] == (l / 4 * 4 + 2) * 10);
    CHECK(ballot[l] == 0xffff0000);
    CHECK(match[l] == 0xffU << (l / 8 * 8));
    CHECK(sum[l] == 31 * 32 / 2 * 10);
  }
}

TEST_CASE("scopes, guards, branches and unknown instructions") {
  CHECK(one("{ .reg .b32 t; add.u32 t, %a, 1; mov.u32 %d, t; } { .reg .b32 t; mul.lo.u32 t, %d, 2; mov.u32 %d, t; }",
            4) == 10);
  std::vector<std::uint32_t> x(96, 3);
  const auto y =
      run("mov.u32 %d, 0; setp.lt.u32 %p1, %r1, 7; @%p1 bra $L1; add.u32 %d, %d, 5; bra.uni $L2;\n"
          "$L1: @!%p1 add.u32 %d, %d, 100; add.u32 %d, %d, 1;\n$L2: add.u32 %d, %d, 20;",
          x);
  for (std::uint32_t l = 0; l < 32; ++l) CHECK(y[l] == (l < 7 ? 21 : 25));
  std::vector<Finding> findings;
  run("frobnicate.sync.b32 %d, %a;", x, &findings);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].check == Check::unsupported);
  CHECK(findings[0].text.find("frobnicate") != std::string::npos);
}

TEST_CASE("text that is not PTX") {
  CHECK_THROWS_AS(parse_module(".visible .entry k(.param .u64 p) { ld.param.u64"), ParseError);
  CHECK_THROWS_AS(parse_module(".visible .entry k() { bra $L1; }"), ParseError);
  CHECK_THROWS_AS(parse_module(".visible .entry k() { } } { "), ParseError);
  CHECK(parse_module("").kernels.empty());
}

TEST_CASE("comments end where they say, and none begins in a name") {
  const Module module =
      parse_module("// one\n/* two\n */ .file 1 \"bin/..//include/a.hpp\" // three\n.file 2 \"b.cu\"\n");
  REQUIRE(module.files->size() == 3);
  CHECK((*module.files)[1] == "bin/..//include/a.hpp");
  CHECK((*module.files)[2] == "b.cu");
  CHECK(parse_module(".file 1 \"open").kernels.empty());
}

TEST_CASE("mbarriers") {
  // One for the arrivals of a warp; the second phase misses one of them, and 16 bytes.
  const std::string begin =
      ".shared .align 8 .b8 object[8];\n"
      "mov.u32 %r2, object; setp.eq.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r1, 0;\n"
      "@%p1 mbarrier.init.shared.b64 [%r2], 32; bar.warp.sync 0xffffffff;\n"
      "mbarrier.arrive.shared.b64 %rd4, [%r2];\n";
  const std::string second = "@%p2 mbarrier.arrive.shared.b64 %rd4, [%r2];\n";
  const auto outcome = [](const std::string& wait) { return wait + " selp.u32 %d, 1, 0, %p3;"; };
  CHECK(one(begin + outcome("mbarrier.test_wait.shared.b64 %p3, [%r2], %rd4;"), 0) == 1);
  CHECK(one(begin + outcome("mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0;"), 0) == 1);
  CHECK(one(begin + outcome("mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r2], 1;"), 0) == 0);
  CHECK(one(begin + second + outcome("mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 1;"), 0) == 0);
  std::vector<Finding> findings;
  CHECK(run(begin + second + "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16;\n" +
                outcome("mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 1;"),
            {}, &findings) == std::vector<std::uint32_t>(32, 0));
  REQUIRE(findings.size() == 1);  // the bytes never come
  CHECK(findings[0].check == Check::mbarrier);
  CHECK(one(begin + second + "@%p1 mbarrier.arrive.shared.b64 _, [%r2];\n" +
                outcome("mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 1;"),
            0) == 1);
}

TEST_CASE("bulk copies") {
  CHECK(run(".shared .align 16 .b8 place[128]; .shared .align 8 .b8 object[8];\n"
            "mov.u32 %r2, object; mov.u32 %r3, place; mov.u32 %r4, 128; setp.eq.u32 %p1, %r1, 0;\n"
            "@%p1 mbarrier.init.shared.b64 [%r2], 1; bar.warp.sync 0xffffffff;\n"
            "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 128;\n"
            "@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r3], [%rd2], %r4, [%r2];\n"
            "again: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra again;\n"
            "shl.b32 %r5, %r1, 2; add.u32 %r5, %r5, %r3; ld.shared.u32 %d, [%r5];",
            {5, 6, 7})[2] == 7);
}

TEST_CASE("shared memory and barriers of a cluster of one block") {
  const std::string begin =
      ".shared .align 4 .b8 place[128];\n"
      "mov.u32 %r2, place; shl.b32 %r3, %r1, 2; add.u32 %r3, %r3, %r2; mul.lo.u32 %r4, %r1, 3;\n"
      "st.shared.u32 [%r3], %r4; barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n";
  const std::vector<std::uint32_t> x(96);
  const auto by_rank = run(begin + "mapa.shared::cluster.u32 %r5, %r3, 0; ld.shared::cluster.u32 %d, [%r5];", x);
  const auto own = run(begin + "ld.shared::cluster.u32 %d, [%r3];", x);
  const auto generic =
      run(begin + "cvt.u64.u32 %rd4, %r3; cvta.shared.u64 %rd4, %rd4; mapa.u64 %rd5, %rd4, 0; ld.u32 %d, [%rd5];", x);
  const auto stored = run(
      begin + "mapa.shared::cluster.u32 %r5, %r3, 0; st.shared::cluster.u32 [%r5], %r1; ld.shared.u32 %d, [%r3];", x);
  for (std::uint32_t l = 0; l < 32; ++l) {
    CHECK(by_rank[l] == 3 * l);
    CHECK(own[l] == 3 * l);
    CHECK(generic[l] == 3 * l);
    CHECK(stored[l] == l);
  }
  CHECK(one("mov.u32 %d, %cluster_nctarank;", 0) == 1);
  for (const char* unknown : {"barrier.cluster.arrive.relaxed;", "atom.shared::cluster.add.u32 %d, [%r3], 1;"}) {
    std::vector<Finding> findings;
    run(begin + unknown, x, &findings);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].check == Check::unsupported);
  }
}

TEST_CASE("places in a cluster") {
  const std::string text =
      ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 k_param_0)\n{\n"
      ".reg .b32 %r<20>; .reg .b64 %rd<9>;\n"
      "ld.param.u64 %rd1, [k_param_0]; mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x;\n"
      "mad.lo.u32 %r1, %r1, %r2, %r3; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;\n"
      "mov.u32 %r4, %clusterid.x; mov.u32 %r5, %cluster_ctaid.x; mad.lo.u32 %r4, %r4, 10, %r5;\n"
      "mov.u32 %r5, %cluster_ctaid.y; mad.lo.u32 %r4, %r4, 10, %r5; mov.u32 %r5, %cluster_ctarank;\n"
      "mad.lo.u32 %r4, %r4, 10, %r5; mov.u32 %r5, %cluster_nctarank; mad.lo.u32 %r4, %r4, 10, %r5;\n"
      "mov.u32 %r5, %nclusterid.x; mad.lo.u32 %r4, %r4, 10, %r5; mov.u32 %r5, %cluster_nctaid.y;\n"
      "mad.lo.u32 %r4, %r4, 10, %r5; st.global.u32 [%rd1], %r4;\nret;\n}\n";
  const Module module = parse_module(text);
  DeviceMemory memory;
  GlobalTracker tracker;
  const std::uint32_t* y = upload(memory, std::vector<std::uint32_t>(12));
  const LaunchResult r =
      launch(module.kernels.begin()->second, {{6, 2, 1}, {1, 1, 1}, 0, {2, 2, 1}}, parameters(y), memory, tracker, {});
  CHECK(r.completed);
  CHECK(r.findings.empty());
  for (std::uint32_t n = 0; n < 12; ++n) {
    const std::uint32_t cluster = n % 6 / 2, x = n % 2, row = n / 6, rank = x + 2 * row;
    CHECK(y[n] == cluster * 1000000 + x * 100000 + row * 10000 + rank * 1000 + 432);
  }
}

}  // namespace ptxsim::tests
